"""Generator of the functions that encode one version of a message.

The function appends buffers to a list; records are not copied. Tagged fields are encoded in the order of their tags and
only if they differ from their default. A field that the version does not have must have its default unless it is
ignorable: without its "validate only" flag, for example, a request would have another meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from ottla.base.varint import encode_uvarint
from ottla.wire import primitives
from ottla.wire.primitives import ERROR_MESSAGE_CHARACTERS_MAX, STRING_BYTES_MAX
from ottla.wire.schema import Field, Message
from ottla.wire.source import SCALAR_CODES, FunctionSource, Layout

# append, message
Writer = Callable[[Callable[[bytes], None], Any], None]

# The byte before a nullable struct
ABSENT = b"\xff"
ABSENT_TAGGED = b"\x00"
PRESENT = b"\x01"


def make_writer(message: type[Message], version: int) -> Writer:
    """Compile the writer of one version."""
    source = _WriterSource(message.__name__, version)
    source.struct(message, "message", flexible=version in message.SPEC.flexible)
    source.flush()
    source.line("return")
    return source.compile("write", "out, message", f"{message.__name__} writer")


class _WriterSource(FunctionSource):
    def __init__(self, name: str, version: int) -> None:
        super().__init__(version)
        self.path = name
        self.out = "out"
        self.names["uvarint"] = encode_uvarint
        for helper in ("packed", "unwritable"):
            self.names[helper] = getattr(primitives, helper)

    def flush(self) -> None:
        """Pack the pending fixed-size values."""
        if not self.fixed:
            return
        layout, expressions = self.take_fixed()
        if not expressions:
            self.line(f"{self.out}({bytes(layout.size)!r})")
            return
        self.line(f"{self.out}({self.bind(layout.pack, 'pack')}({', '.join(expressions)}))")

    def struct(self, message: type[Message], source: str, *, flexible: bool) -> None:
        """Generate the encoding of a struct; its last fixed-size values stay pending."""
        layout = Layout(message, self.version, flexible=flexible)
        for field in layout.absent:
            if not field.wire.ignorable:
                default = self.bind(field.default, "default")
                why = f"{self.path}.{field.name} cannot be encoded in version {self.version}"
                self.line(f"if {source}.{field.name} != {default}: unwritable('{why}')")
        for field in layout.plain:
            self.field(field, f"{source}.{field.name}", struct_flexible=flexible)
        if not flexible:
            return
        if layout.tagged:
            self.tagged_fields(layout, source)
        else:
            self.fixed.append(("x", ""))

    def field(self, field: Field, source: str, *, struct_flexible: bool) -> None:
        """Generate the encoding of one field, or add it to the pending fixed-size values."""
        outer, self.path = self.path, f"{self.path}.{field.name}"
        kind = field.wire.kind
        flexible = self.is_flexible(field, struct_flexible=struct_flexible)
        nullable = self.version in field.wire.nullable
        if kind in SCALAR_CODES:
            self.fixed.append((SCALAR_CODES[kind], f"{source}.bytes" if kind == "uuid" else source))
        elif field.is_array:
            self.array(field, source, nullable=nullable, flexible=flexible)
        elif field.struct is not None:
            absent = ABSENT_TAGGED if self.version in field.wire.tagged else ABSENT
            self.nested(field.struct, source, absent if nullable else None, flexible=struct_flexible)
        else:
            self.text(kind, source, nullable=nullable, flexible=flexible)
        self.path = outer

    def value(self, source: str, code: str, *, nullable: bool, flexible: bool) -> str:
        """Assign a value of variable size to a variable; generate the encoding of null, before an `else`."""
        name = self.variable("v")
        if nullable:
            self.flush()
        self.line(f"{name} = {source}")
        if nullable:
            null = b"\0" if flexible else b"\xff" * struct.calcsize(f">{code}")
            self.line(f"if {name} is None: {self.out}({null!r})")
        return name

    def length(self, name: str, code: str, *, flexible: bool) -> None:
        """Generate the encoding of a length; lengths of fixed size stay pending."""
        if flexible:
            self.flush()
            self.line(f"{self.out}(uvarint(len({name}) + 1))")
        else:
            self.fixed.append((code, f"len({name})"))

    def text(self, kind: str, source: str, *, nullable: bool, flexible: bool) -> None:
        """A string, bytes or records."""
        code = "h" if kind == "string" else "i"
        name = self.value(source, code, nullable=nullable, flexible=flexible)
        with self.block("else:") if nullable else nullcontext():
            if kind == "string":
                if self.path.endswith("error_message"):
                    # It may contain a name of the request, and any name is allowed there.
                    self.line(f"{name} = {name}[:{ERROR_MESSAGE_CHARACTERS_MAX}]")
                self.line(f"{name} = {name}.encode()")
                self.line(f"if len({name}) > {STRING_BYTES_MAX}: unwritable('{self.path} is too long')")
            self.length(name, code, flexible=flexible)
            self.flush()
            self.line(f"{self.out}({name})")

    def array(self, field: Field, source: str, *, nullable: bool, flexible: bool) -> None:
        name = self.value(source, "i", nullable=nullable, flexible=flexible)
        with self.block("else:") if nullable else nullcontext():
            self.length(name, "i", flexible=flexible)
            self.flush()
            kind = field.element_kind
            if kind == "uuid":
                self.line(f"{self.out}(b''.join([u.bytes for u in {name}]))")
            elif kind in SCALAR_CODES:
                self.line(f"if {name}: {self.out}(packed('{SCALAR_CODES[kind]}', {name}))")
            else:
                element = self.variable("element")
                with self.block(f"for {element} in {name}:"):
                    if field.struct is not None:
                        self.struct(field.struct, element, flexible=flexible)
                    else:
                        self.text(kind, element, nullable=False, flexible=flexible)
                    self.flush()

    def nested(self, message: type[Message], source: str, absent: bytes | None, *, flexible: bool) -> None:
        """Generate the encoding of a struct field. A nullable one starts with a byte: `absent` or PRESENT."""
        name = self.variable("v")
        if absent is None:
            self.line(f"{name} = {source}")
            self.struct(message, name, flexible=flexible)
            return
        self.flush()
        self.line(f"{name} = {source}")
        self.line(f"if {name} is None: {self.out}({absent!r})")
        with self.block("else:"):
            self.line(f"{self.out}({PRESENT!r})")
            self.struct(message, name, flexible=flexible)
            self.flush()

    def tagged_fields(self, layout: Layout, source: str) -> None:
        """Generate the encoding of tagged fields. Each is encoded separately, because its size precedes it."""
        self.flush()
        tags, count = self.variable("tags"), self.variable("count")
        self.line(f"{tags} = []")
        self.line(f"{count} = 0")
        for field in layout.tagged:
            default = self.bind(field.default, "default")
            # Kafka reads a missing tagged struct as an empty one, so null must be encoded.
            nullable = field.struct is not None and not field.is_array and self.version in field.wire.nullable
            with self.block("if True:" if nullable else f"if {source}.{field.name} != {default}:"):
                parts = self.variable("parts")
                outer, self.out = self.out, f"{parts}.append"
                self.line(f"{parts} = []")
                self.field(field, f"{source}.{field.name}", struct_flexible=True)
                self.flush()
                self.out = outer
                self.line(f"{parts} = b''.join({parts})")
                self.line(f"{tags} += (uvarint({field.wire.tag}), uvarint(len({parts})), {parts})")
                self.line(f"{count} += 1")
        self.line(f"{self.out}(uvarint({count}))")
        self.line(f"if {count}: {self.out}(b''.join({tags}))")
