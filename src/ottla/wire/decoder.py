"""Generator of the functions that decode one version of a message.

One flat function decodes all structs of a message, without a call per struct. It accepts what Kafka accepts: any
negative length is null if null is allowed, any non-zero byte is true, tags may repeat or be unsorted, the length of
a known tagged field is not compared with the bytes that the field used, malformed UTF-8 becomes U+FFFD, bytes after
the message are ignored.

It is stricter in three respects that do not affect regular clients. Malformed UTF-8 that would have more than 32,767
bytes when it is encoded again is rejected. A struct may have at most `TAGGED_FIELDS_MAX`
tagged fields, and unknown ones are skipped, not stored. Each object is subtracted from `room`, the memory budget of
the caller, *before* an array is built: an array of small structs needs 2 bytes per element on the wire, and a
hundred bytes in memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ottla.base.varint import Source, read_uvarint_rest
from ottla.wire import primitives
from ottla.wire.primitives import SHORT_STRING_BYTES, STRING_BYTES_MAX, TAGGED_FIELDS_MAX
from ottla.wire.schema import Field, Message, fields_of
from ottla.wire.source import SCALAR_CODES, FunctionSource, Layout

# data, position, memory budget -> message, position after it, remaining budget
Reader = Callable[[Source, int, int], tuple[Any, int, int]]

# Memory of objects, measured on 64-bit CPython and rounded up to the sizes of its allocator.
ALLOCATION_BYTES = 16
INT_BYTES = 32
UUID_BYTES = 112
VIEW_BYTES = 208
LIST_BYTES = 64
# A list allocates more slots than it has elements.
SLOT_BYTES = 10
STRING_BYTES = 64
WIDE_STRING_BYTES = 96
WIDE_CHARACTER_BYTES = 4


def object_bytes(message: type[Message], version: int) -> int:
    """The memory of one instance, without its strings and the elements of its arrays."""
    total = sys.getsizeof(message()) + ALLOCATION_BYTES
    for field in fields_of(message):
        if field.is_array:
            total += LIST_BYTES
        elif field.struct is not None:
            total += object_bytes(field.struct, version)
        elif version in field.wire.versions:
            # Fields that the version does not have share their default with all other instances.
            total += _scalar_bytes(field.wire.kind)
    return total


def _scalar_bytes(kind: str) -> int:
    return {"bool": 0, "uuid": UUID_BYTES, "records": VIEW_BYTES, "string": 0, "bytes": 0}.get(
        kind, INT_BYTES
    )


def wire_bytes_min(message: type[Message], version: int, *, flexible: bool) -> int:
    """The minimal size of an encoded struct: all strings empty, all arrays null."""
    layout = Layout(message, version, flexible=flexible)
    total = 1 if flexible else 0
    for field in layout.plain:
        total += _field_bytes_min(field, version, flexible=flexible)
    return total


def _field_bytes_min(field: Field, version: int, *, flexible: bool) -> int:
    if field.is_array or field.wire.kind in ("string", "bytes", "records"):
        if flexible and field.wire.flexible is None:
            return 1
        return 2 if field.wire.kind == "string" else 4
    if field.struct is not None:
        nullable = version in field.wire.nullable
        return 1 if nullable else wire_bytes_min(field.struct, version, flexible=flexible)
    return scalar_wire_bytes(field.wire.kind)


def scalar_wire_bytes(kind: str) -> int:
    """The encoded size of a scalar."""
    return {"bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "uuid": 16}.get(kind, 8)


def make_reader(message: type[Message], version: int) -> Reader:
    """Compile the reader of one version."""
    source = _ReaderSource(message.__name__, version)
    source.line("end = len(data)")
    source.charge(str(object_bytes(message, version)))
    result = source.struct(message, flexible=version in message.SPEC.flexible)
    source.line(f"return {result}, p, room")
    return source.compile("read", "data, p, room", f"{message.__name__} reader")


class _ReaderSource(FunctionSource):
    def __init__(self, name: str, version: int) -> None:
        super().__init__(version)
        self.path = name
        self.names["read_uvarint_rest"] = read_uvarint_rest
        for helper in ("uuid_of", "uuids_of", "unpacked", "reject"):
            self.names[helper] = getattr(primitives, helper)

    def flush(self) -> None:
        """Unpack the pending fixed-size values."""
        if not self.fixed:
            return
        codes = [code for code, _ in self.fixed]
        layout, names = self.take_fixed()
        if codes == ["B"]:
            self.line(f"{names[0]} = data[p]")
        else:
            self.line(f"{', '.join(names)}, = {self.bind(layout.unpack_from, 'unpack')}(data, p)")
        self.line(f"p += {layout.size}")

    def charge(self, amount: str) -> None:
        self.line(f"room -= {amount}")
        self.line(f"if room < 0: reject('{self.path}: more than its memory budget allows')")

    def struct(self, message: type[Message], *, flexible: bool) -> str:
        """Generate the decoding of a struct; return the expression that creates it."""
        layout = Layout(message, self.version, flexible=flexible)
        values: dict[str, str] = {}
        later: list[str] = []
        for field in layout.plain:
            values[field.name] = self.field(field, flexible, later)
        for field in layout.tagged:
            values[field.name] = self.variable(field.name)
            self.line(f"{values[field.name]} = {self.fresh_default(field)}")
        if flexible:
            count = self.variable("tags")
            self.fixed.append(("B", count))
        self.flush()
        for line in later:
            self.line(line)
        if flexible:
            self.tagged_fields(layout, count, values)
        arguments = ", ".join(f"{name}={value}" for name, value in values.items())
        return f"{self.bind(message, message.__name__)}({arguments})"

    def fresh_default(self, field: Field) -> str:
        """An expression for the default of a field, without shared mutable objects."""
        if field.default is None:
            return "None"
        if field.is_array:
            return "[]"
        if field.struct is not None:
            return f"{self.bind(field.struct, field.struct.__name__)}()"
        return self.bind(field.default, "default")

    def field(self, field: Field, struct_flexible: bool, later: list[str]) -> str:
        """Generate the decoding of one field into a new variable, or add it to the pending fixed-size values."""
        outer, self.path = self.path, f"{self.path}.{field.name}"
        target = self.variable(field.name)
        kind = field.wire.kind
        flexible = self.is_flexible(field, struct_flexible=struct_flexible)
        nullable = self.version in field.wire.nullable
        if kind in SCALAR_CODES:
            self.fixed.append((SCALAR_CODES[kind], target))
            if kind == "uuid":
                later.append(f"{target} = uuid_of({target})")
        elif field.is_array:
            self.array(field, target, nullable=nullable, flexible=flexible)
        elif field.struct is not None:
            present_min = None if not nullable else 1 if self.version in field.wire.tagged else 0
            self.nested(field.struct, target, present_min, flexible=struct_flexible)
        else:
            self.text(kind, target, nullable=nullable, flexible=flexible)
        self.path = outer
        return target

    def length(self, code: str, *, flexible: bool) -> str:
        """Generate the decoding of a length; return its variable, negative for null."""
        name = self.variable("n")
        self.fixed.append(("B" if flexible else code, name))
        self.flush()
        if flexible:
            self.line(f"if {name} > 127: {name}, p = read_uvarint_rest(data, p, {name})")
            self.line(f"{name} -= 1")
        return name

    def check_null(self, length: str, target: str, *, nullable: bool) -> None:
        if nullable:
            self.line(f"if {length} < 0: {target} = None")
        else:
            self.line(f"if {length} < 0: reject('{self.path} must not be null')")

    def text(self, kind: str, target: str, *, nullable: bool, flexible: bool) -> None:
        """A string, bytes or records."""
        length = self.length("h" if kind == "string" else "i", flexible=flexible)
        self.check_null(length, target, nullable=nullable)
        with self.block("else:"):
            after = self.variable("q")
            self.line(f"{after} = p + {length}")
            self.line(f"if {after} > end: reject('{self.path} is longer than the message')")
            if kind == "string":
                # Only a varint can exceed the limit.
                if flexible:
                    self.line(f"if {length} > {STRING_BYTES_MAX}: reject('{self.path} is too long')")
                self.line(f"{target} = str(data[p:{after}], 'utf-8', 'replace')")
                # The response may contain the string.
                self.line(
                    f"if {length} > {SHORT_STRING_BYTES} and len({target}.encode()) > {STRING_BYTES_MAX}:"
                )
                self.line(f"    reject('{self.path} is malformed and too long to be encoded again')")
                wide = f"{WIDE_CHARACTER_BYTES} * {length} + {WIDE_STRING_BYTES}"
                self.charge(f"{length} + {STRING_BYTES} if {target}.isascii() else {wide}")
            elif kind == "bytes":
                self.charge(f"{length} + {STRING_BYTES}")
                self.line(f"{target} = bytes(data[p:{after}])")
            else:
                self.line(f"{target} = memoryview(data)[p:{after}]")
            self.line(f"p = {after}")

    def array(self, field: Field, target: str, *, nullable: bool, flexible: bool) -> None:
        length = self.length("i", flexible=flexible)
        self.check_null(length, target, nullable=nullable)
        with self.block("else:"):
            kind = field.element_kind
            if field.struct is not None:
                size = max(1, wire_bytes_min(field.struct, self.version, flexible=flexible))
                cost = object_bytes(field.struct, self.version) + SLOT_BYTES
            elif kind in SCALAR_CODES:
                size = scalar_wire_bytes(kind)
                cost = _scalar_bytes(kind) + SLOT_BYTES
            else:
                size = 1 if flexible else 2
                cost = SLOT_BYTES
            self.line(f"if {length} * {size} > end - p: reject('{self.path} has more elements than bytes')")
            self.charge(f"{length} * {cost}")
            if kind in SCALAR_CODES:
                self.scalars(kind, size, length, target)
            else:
                self.elements(field, length, target, flexible=flexible)

    def scalars(self, kind: str, size: int, length: str, target: str) -> None:
        if kind == "uuid":
            self.line(f"{target} = uuids_of(bytes(data[p:p + {length} * 16]))")
        else:
            self.line(f"{target} = unpacked('{SCALAR_CODES[kind]}', {length}, data, p)")
        self.line(f"p += {length} * {size}")

    def elements(self, field: Field, length: str, target: str, *, flexible: bool) -> None:
        """A loop over elements with a size of their own."""
        append = self.variable("append")
        self.line(f"{target} = []")
        self.line(f"{append} = {target}.append")
        with self.block(f"for _ in range({length}):"):
            if field.struct is not None:
                made = self.struct(field.struct, flexible=flexible)
            else:
                made = self.variable("element")
                self.text(field.element_kind, made, nullable=False, flexible=flexible)
            self.line(f"{append}({made})")

    def nested(self, message: type[Message], target: str, present_min: int | None, *, flexible: bool) -> None:
        """A struct that is a field itself; one that may be null is preceded by a byte, too small if it is."""
        if present_min is None:
            self.flush()
            self.line(f"{target} = {self.struct(message, flexible=flexible)}")
            return
        present = self.variable("present")
        self.fixed.append(("b", present))
        self.flush()
        self.line(f"if {present} < {present_min}: {target} = None")
        with self.block("else:"):
            self.line(f"{target} = {self.struct(message, flexible=flexible)}")

    def tagged_fields(self, layout: Layout, count: str, values: dict[str, str]) -> None:
        tag, size = self.variable("tag"), self.variable("size")
        with self.block(f"if {count}:"):
            self.line(f"if {count} > 127: {count}, p = read_uvarint_rest(data, p, {count})")
            self.line(f"if {count} > {TAGGED_FIELDS_MAX}: reject('{self.path} has too many tagged fields')")
            with self.block(f"for _ in range({count}):"):
                for name in (tag, size):
                    self.line(f"{name} = data[p]")
                    self.line("p += 1")
                    self.line(f"if {name} > 127: {name}, p = read_uvarint_rest(data, p, {name})")
                word = "if"
                for field in layout.tagged:
                    with self.block(f"{word} {tag} == {field.wire.tag}:"):
                        later: list[str] = []
                        read = self.field(field, True, later)
                        self.flush()
                        for line in later:
                            self.line(line)
                        self.line(f"{values[field.name]} = {read}")
                    word = "elif"
                with self.block("else:" if layout.tagged else "if True:"):
                    self.line(f"if not 0 <= {size} <= end - p: reject('a tag is longer than the message')")
                    self.line(f"p += {size}")
