"""Avro data to plain values, for display: object container files and single values with a given schema.

Data and schemas are not trusted. Every length is checked against the available bytes; depth, the number of values and
the size of decompressed blocks are limited, so that no input takes unbounded time or memory. Logical types are shown as
the types that they are stored as. What cannot be decoded raises `AvroError`. Pure; depends on no Avro library.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ottla.records.compression import Codec, DecompressedTooLarge, DecompressionFailed, decompress

CONTAINER_MAGIC: Final = b"Obj\x01"
SINGLE_MAGIC: Final = b"\xc3\x01"
VALUES_MAX: Final = 200_000
DEPTH_MAX: Final = 64
BLOCK_BYTES_MAX: Final = 16 << 20
_SYNC_BYTES: Final = 16
_VARINT_BYTES: Final = 10
_PRIMITIVES: Final = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_META: Final = {"type": "map", "values": "bytes"}

Schema = Any
"""A schema as JSON: the name of a type, a list for a union, or an object."""


class AvroError(ValueError):
    """Data that does not follow its schema, a schema that is not valid, or more than the limits allow."""


def parse_schema(text: bytes | str) -> Schema:
    """Parse and check a schema. Raise AvroError."""
    try:
        schema = msgspec.json.decode(text)
    except (ValueError, RecursionError) as error:
        raise AvroError(f"the schema is not JSON: {error}") from None
    _Names().collect(schema, 0)
    return schema


def decode_value(data: bytes, schema: Schema) -> Any:
    """One value that fills the data. Raise AvroError."""
    reader = _Reader(data, schema)
    value = reader.read(schema)
    if reader.position != len(data):
        raise AvroError(f"{len(data) - reader.position} bytes follow the value")
    return value


def decode_container(data: bytes) -> list[Any]:
    """The values of an object container file. Raise AvroError."""
    header = _Reader(data, _META, position=len(CONTAINER_MAGIC))
    if not data.startswith(CONTAINER_MAGIC):
        raise AvroError("no container file")
    meta = header.read(_META)
    sync = header.take(_SYNC_BYTES)
    schema = parse_schema(meta.get("avro.schema", b""))
    unpack = _unpacker(meta.get("avro.codec", b"null"))
    values: list[Any] = []
    while header.position < len(data):
        count = header.long()
        block = unpack(header.take(header.long()))
        reader = _Reader(block, schema, values_left=VALUES_MAX - len(values))
        if not 0 <= count <= VALUES_MAX - len(values):
            raise AvroError(f"a block announces {count} values")
        values += [reader.read(schema) for _ in range(count)]
        if reader.position != len(block) or header.take(_SYNC_BYTES) != sync:
            raise AvroError("a block does not end where it should")
    return values


def _unpacker(codec: bytes) -> Callable[[bytes], bytes]:
    unpackers: dict[bytes, Callable[[bytes], bytes]] = {
        b"null": lambda block: block,
        b"deflate": _inflate,
        b"zstandard": lambda block: _decompress(Codec.ZSTD, block),
        # Four bytes of CRC follow the data.
        b"snappy": lambda block: _decompress(Codec.SNAPPY, block[:-4]),
    }
    if codec not in unpackers:
        raise AvroError(f"the codec {codec.decode('utf-8', 'replace')!r} is not supported")
    return unpackers[codec]


def _inflate(block: bytes) -> bytes:
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = inflater.decompress(block, BLOCK_BYTES_MAX)
    except zlib.error as error:
        raise AvroError(f"a block cannot be decompressed: {error}") from None
    if inflater.unconsumed_tail:
        raise AvroError(f"a block has more than {BLOCK_BYTES_MAX} bytes")
    return found


def _decompress(codec: Codec, block: bytes) -> bytes:
    try:
        return bytes(decompress(codec, block, BLOCK_BYTES_MAX))
    except (DecompressedTooLarge, DecompressionFailed) as error:
        raise AvroError(f"a block cannot be decompressed: {error}") from None


class _Names:
    """The named types of a schema; checks its structure."""

    def __init__(self) -> None:
        self.types: dict[str, Schema] = {}

    def collect(self, schema: Schema, depth: int, namespace: str = "") -> None:
        if depth > DEPTH_MAX:
            raise AvroError(f"the schema is nested more than {DEPTH_MAX} deep")
        if isinstance(schema, str):
            if schema not in _PRIMITIVES:
                self.find(schema)
            return
        if isinstance(schema, list):
            for branch in schema:
                self.collect(branch, depth + 1, namespace)
            return
        if not isinstance(schema, dict):
            raise AvroError(f"{schema!r} is not a schema")
        self._collect_object(schema, depth, namespace)

    def _collect_object(self, schema: dict[str, Any], depth: int, namespace: str) -> None:
        kind = schema.get("type")
        if kind in ("record", "enum", "fixed", "error"):
            namespace = self._register(schema, namespace)
            if kind in ("record", "error"):
                for field in _members(schema, "fields"):
                    if (
                        not isinstance(field, dict)
                        or "type" not in field
                        or not isinstance(field.get("name"), str)
                    ):
                        raise AvroError("a field of a record needs a name and a type")
                    self.collect(field["type"], depth + 1, namespace)
            elif kind == "enum":
                _members(schema, "symbols")
            elif not isinstance(schema.get("size"), int) or schema["size"] < 0:
                raise AvroError("a fixed type needs a size")
        elif kind == "array":
            self.collect(schema.get("items"), depth + 1, namespace)
        elif kind == "map":
            self.collect(schema.get("values"), depth + 1, namespace)
        else:
            self.collect(kind, depth + 1, namespace)

    def _register(self, schema: dict[str, Any], namespace: str) -> str:
        name = schema.get("name")
        if not isinstance(name, str):
            raise AvroError(f"a type {schema['type']} needs a name")
        own = schema.get("namespace", namespace)
        if "." in name:
            own, _, name = name.rpartition(".")
        self.types[name] = schema
        self.types[f"{own}.{name}"] = schema
        return str(own)

    def find(self, name: str) -> Schema:
        found = self.types.get(name)
        if found is None:
            raise AvroError(f"the type {name!r} is not defined")
        return found


def _members(schema: dict[str, Any], name: str) -> list[Any]:
    found = schema.get(name)
    if not isinstance(found, list):
        raise AvroError(f"a type {schema['type']} needs a list of {name}")
    return found


class _Reader:
    """A position in data of one schema."""

    def __init__(
        self, data: bytes, schema: Schema, *, position: int = 0, values_left: int = VALUES_MAX
    ) -> None:
        self.position = position
        self._data = data
        self._left = values_left
        self._names = _Names()
        self._names.collect(schema, 0)

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self.position:
            raise AvroError(f"{size} bytes announced, {len(self._data) - self.position} left")
        self.position += size
        return self._data[self.position - size : self.position]

    def long(self) -> int:
        number = 0
        for index in range(_VARINT_BYTES):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise AvroError("a number has more than 64 bits")

    def read(self, schema: Schema, depth: int = 0) -> Any:
        self._left -= 1
        if self._left < 0:
            raise AvroError(f"more than {VALUES_MAX} values")
        if depth > DEPTH_MAX:
            raise AvroError(f"values are nested more than {DEPTH_MAX} deep")
        if isinstance(schema, str):
            return (
                self._primitive(schema)
                if schema in _PRIMITIVES
                else self.read(self._names.find(schema), depth + 1)
            )
        if isinstance(schema, list):
            return self.read(self._choice(schema, "branch"), depth + 1)
        return self._complex(schema, depth)

    def _choice(self, choices: list[Any], what: str) -> Any:
        index = self.long()
        if not 0 <= index < len(choices):
            raise AvroError(f"there is no {what} {index}")
        return choices[index]

    def _primitive(self, kind: str) -> Any:
        match kind:
            case "null":
                return None
            case "boolean":
                return self.take(1) != b"\x00"
            case "int" | "long":
                return self.long()
            case "float":
                return struct.unpack("<f", self.take(4))[0]
            case "double":
                return struct.unpack("<d", self.take(8))[0]
            case "string":
                return self._string()
            case _:
                return self.take(self.long())

    def _string(self) -> str:
        try:
            return self.take(self.long()).decode()
        except UnicodeDecodeError:
            raise AvroError("a string is not UTF-8") from None

    def _complex(self, schema: dict[str, Any], depth: int) -> Any:
        match schema["type"]:
            case "record" | "error":
                return {field["name"]: self.read(field["type"], depth + 1) for field in schema["fields"]}
            case "enum":
                return self._choice(schema["symbols"], "symbol")
            case "fixed":
                return self.take(schema["size"])
            case "array":
                found: list[Any] = []
                self._blocks(lambda: found.append(self.read(schema["items"], depth + 1)))
                return found
            case "map":
                members: dict[str, Any] = {}
                self._blocks(lambda: members.update({self._string(): self.read(schema["values"], depth + 1)}))
                return members
            case inner:
                return self.read(inner, depth + 1)

    def _blocks(self, read_one: Callable[[], None]) -> None:
        while count := self.long():
            if count < 0:
                count = -count
                self.long()  # the size of the block in bytes, for readers that skip it
            for _ in range(count):
                read_one()
