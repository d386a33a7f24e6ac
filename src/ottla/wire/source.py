"""Source code of generated functions: indented lines, bound objects, consecutive fixed-size values.

Consecutive fixed-size values are packed or unpacked by one call: `fixed` collects them, and `flush` of the reader or
writer generates one line for them. A value of variable size is generated after a flush.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.wire.schema import Field, Message, fields_of

SCALAR_CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


class Layout:
    """The fields of a class in one version: absent, plain, tagged."""

    def __init__(self, message: type[Message], version: int, *, flexible: bool) -> None:
        fields = fields_of(message)
        present = [field for field in fields if version in field.wire.versions]
        self.flexible = flexible
        self.absent = [field for field in fields if version not in field.wire.versions]
        self.plain = [field for field in present if version not in field.wire.tagged]
        tagged = [field for field in present if version in field.wire.tagged]
        self.tagged = sorted(tagged, key=lambda field: field.wire.tag)


class FunctionSource:
    """The source of one function under construction."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self.fixed: list[tuple[str, str]] = []
        self._bound: dict[int, str] = {}
        self._count = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """An indented block below a line such as `if x:`."""
        self.line(head)
        self.depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def variable(self, hint: str) -> str:
        """A new local name."""
        self._count += 1
        return f"{hint}_{self._count}"

    def bind(self, value: object, hint: str) -> str:
        """The name of an object in the scope of the function."""
        known = self._bound.get(id(value))
        if known is None:
            known = self.variable(hint)
            self._bound[id(value)] = known
            self.names[known] = value
        return known

    def take_fixed(self) -> tuple[struct.Struct, list[str]]:
        """Remove the pending fixed-size values; return their layout and names."""
        fixed, self.fixed = self.fixed, []
        return struct.Struct(">" + "".join(code for code, _ in fixed)), [name for _, name in fixed if name]

    def is_flexible(self, field: Field, *, struct_flexible: bool) -> bool:
        """Whether the length of a field is a varint."""
        if field.wire.flexible is not None and self.version not in field.wire.flexible:
            return False
        return struct_flexible

    def compile(self, function: str, parameters: str, name: str) -> Callable[..., Any]:
        """Compile the function."""
        text = "\n".join([f"def {function}({parameters}):", *self.lines])
        # The source contains only declarations of this package, nothing from a client.
        exec(compile(text, f"<{name} v{self.version}>", "exec"), self.names)  # noqa: S102
        made: Callable[..., Any] = self.names[function]
        return made
