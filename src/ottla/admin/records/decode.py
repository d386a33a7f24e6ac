"""Keys and values as they are shown: JSON, text, hexadecimal, Avro, MessagePack, or whatever fits.

Records are hostile input. What is decoded is limited in size and depth; larger data are shown as text or hexadecimal up
to the limit, with a note. Decoding never raises: what cannot be decoded as requested is shown otherwise, and the note
has the reason. `printable` makes a text safe for a terminal. Pure and thread-safe.

`auto` chooses JSON for a valid document, text for printable UTF-8, Avro for an object container file, MessagePack for a
map with text keys, and hexadecimal for anything else.
"""

from __future__ import annotations

import codecs
import re
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec

from ottla.admin.records import avro

SIZE_MAX: Final = 8 << 20
DEPTH_MAX: Final = 100
_CONFLUENT_HEADER: Final = 5
"""A zero and the id of a schema in four bytes, as serializers with a schema registry write."""
_SINGLE_HEADER: Final = 10
_MSGPACK_MAPS: Final = frozenset([*range(0x81, 0x90), 0xDE, 0xDF])
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""Control characters except tab and newline, and characters that are invisible or change the direction of text."""
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Form(StrEnum):
    """How keys and values are decoded."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"
    AVRO = "avro"
    MSGPACK = "msgpack"


class Decoded(NamedTuple):
    """A key or value for display."""

    kind: str
    """`null`, or the form that was used."""
    value: Any
    """None, a text, or for JSON, Avro and MessagePack a value that can be encoded as JSON."""
    note: str | None = None
    """Why the requested form could not be used, or what was left out."""

    @property
    def is_document(self) -> bool:
        return self.kind in (Form.JSON, Form.AVRO, Form.MSGPACK)

    def text(self, *, indent: int = 0) -> str:
        """As text: documents as JSON, on one line unless `indent` is given; null as an empty text."""
        if not self.is_document:
            return self.value or ""
        encoded = msgspec.json.encode(self.value)
        return (msgspec.json.format(encoded, indent=indent) if indent else encoded).decode()


NULL: Final = Decoded("null", None)


class Decoder:
    """Decodes keys and values in one form."""

    def __init__(
        self, form: Form = Form.AUTO, *, size_max: int = SIZE_MAX, schema: avro.Schema | None = None
    ) -> None:
        """`schema` is for Avro values without one: plain, single objects, and with the header of a schema registry."""
        self.form = form
        self._size_max = size_max
        self._schema = schema

    def decode(self, data: bytes | None) -> Decoded:
        if data is None:
            return NULL
        if len(data) > self._size_max:
            return self._shortened(data)
        match self.form:
            case Form.HEX:
                return Decoded(Form.HEX, data.hex())
            case Form.TEXT:
                return Decoded(Form.TEXT, data.decode("utf-8", "replace"))
            case Form.AUTO:
                return self._auto(data)
            case form:
                try:
                    return Decoded(form, _DOCUMENTS[form](self, data))
                except (ValueError, RecursionError, TypeError) as error:
                    return _plain_bytes(data, f"not {form}: {error}")

    def _shortened(self, data: bytes) -> Decoded:
        note = f"the first {self._size_max} of {len(data)} bytes"
        start = data[: self._size_max]
        return (
            Decoded(Form.HEX, start.hex(), note)
            if self.form is Form.HEX
            else _plain_bytes(start, note, final=False)
        )

    def _auto(self, data: bytes) -> Decoded:
        if data[:1] in (b"{", b"["):
            try:
                return Decoded(Form.JSON, self._json(data))
            except (ValueError, RecursionError) as error:
                return _plain_bytes(data, f"not json: {error}")
        if data.startswith(avro.CONTAINER_MAGIC):
            try:
                return Decoded(Form.AVRO, self._avro(data))
            except ValueError as error:
                return _plain_bytes(data, f"not avro: {error}")
        if data[:1] and data[0] in _MSGPACK_MAPS:
            try:
                return Decoded(Form.MSGPACK, self._msgpack(data))
            except (ValueError, RecursionError, TypeError):
                return _plain_bytes(data)
        return _plain_bytes(data)

    def _json(self, data: bytes) -> Any:
        found = msgspec.json.decode(data)
        _check_depth(found)
        return found

    def _msgpack(self, data: bytes) -> Any:
        return _as_json(msgspec.msgpack.decode(data))

    def _avro(self, data: bytes) -> Any:
        if data.startswith(avro.CONTAINER_MAGIC):
            values = avro.decode_container(data)
            return _as_json(values[0] if len(values) == 1 else values)
        if self._schema is None:
            raise avro.AvroError(_without_schema(data))
        if data.startswith(avro.SINGLE_MAGIC):
            data = data[_SINGLE_HEADER:]
        elif data[:1] == b"\x00" and len(data) > _CONFLUENT_HEADER:
            try:
                return _as_json(avro.decode_value(data[_CONFLUENT_HEADER:], self._schema))
            except avro.AvroError:
                # A value without a header may start with a zero as well.
                pass
        return _as_json(avro.decode_value(data, self._schema))


_DOCUMENTS: Final = {Form.JSON: Decoder._json, Form.AVRO: Decoder._avro, Form.MSGPACK: Decoder._msgpack}


def _without_schema(data: bytes) -> str:
    if data.startswith(avro.SINGLE_MAGIC) and len(data) >= _SINGLE_HEADER:
        return f"a single object of the schema with fingerprint {data[2:_SINGLE_HEADER].hex()}; the schema is needed"
    if data[:1] == b"\x00" and len(data) > _CONFLUENT_HEADER:
        number = int.from_bytes(data[1:_CONFLUENT_HEADER], "big")
        return f"a value of schema {number} of a registry; the schema is needed"
    return "the schema is needed"


def _plain_bytes(data: bytes, note: str | None = None, *, final: bool = True) -> Decoded:
    """Text if the data are printable UTF-8, otherwise hexadecimal. Without `final` the last character may be cut."""
    try:
        text, _ = codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError:
        return Decoded(Form.HEX, data.hex(), note)
    return Decoded(Form.HEX, data.hex(), note) if _CONTROL.search(text) else Decoded(Form.TEXT, text, note)


def _check_depth(value: Any) -> None:
    """Raise ValueError if a document is nested too deep to be encoded or shown. Level by level, without recursion."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            member
            for one in level
            if isinstance(one, dict | list)
            for member in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise ValueError(f"nested more than {DEPTH_MAX} deep")


def _as_json(value: Any, depth: int = 0) -> Any:
    """A value of Avro or MessagePack with types that JSON has: bytes as hexadecimal, times as text."""
    if depth > DEPTH_MAX:
        raise ValueError(f"nested more than {DEPTH_MAX} deep")
    match value:
        case dict():
            return {_name(name): _as_json(member, depth + 1) for name, member in value.items()}
        case list() | tuple():
            return [_as_json(member, depth + 1) for member in value]
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
        case msgspec.msgpack.Ext():
            return {"type": value.code, "data": bytes(value.data).hex()}
        case None | bool() | int() | str():
            return value
        case float():
            return value if value - value == 0 else str(value)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be shown")


def _name(name: Any) -> str:
    return name if isinstance(name, str) else str(_as_json(name))


def printable(text: str) -> str:
    """The text with control characters and invisible characters as escapes. Tabs and newlines are kept."""
    return _UNPRINTABLE.sub(lambda found: repr(found[0])[1:-1], text)
