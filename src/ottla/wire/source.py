"""Building the text of a generated function: lines at a depth, bound objects, and runs of fixed-size values.

Numbers that follow each other are packed or unpacked by one call: `values` collects them, `flush` of the
reader or writer turns them into one line. Everything with a size of its own comes after a flush.
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
    """Which fields of a class travel in one version, and how."""

    def __init__(self, message: type[Message], version: int, *, flexible: bool) -> None:
        fields = fields_of(message)
        present = [field for field in fields if version in field.wire.versions]
        self.flexible = flexible
        self.absent = [field for field in fields if version not in field.wire.versions]
        self.plain = [field for field in present if version not in field.wire.tagged]
        tagged = [field for field in present if version in field.wire.tagged]
        self.tagged = sorted(tagged, key=lambda field: field.wire.tag)


class FunctionSource:
    """The text of one function in the making."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self.run: list[tuple[str, str]] = []
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
        """A name under which the function sees an object."""
        known = self._bound.get(id(value))
        if known is None:
            known = self.variable(hint)
            self._bound[id(value)] = known
            self.names[known] = value
        return known

    def take_run(self) -> tuple[struct.Struct, list[str]]:
        """The layout and the names of the fixed-size values collected so far, which are then forgotten."""
        run, self.run = self.run, []
        return struct.Struct(">" + "".join(code for code, _ in run)), [name for _, name in run if name]

    def is_flexible(self, field: Field, *, struct_flexible: bool) -> bool:
        """Whether a field's length travels as a varint."""
        if field.wire.flexible is not None and self.version not in field.wire.flexible:
            return False
        return struct_flexible

    def compile(self, function: str, parameters: str, name: str) -> Callable[..., Any]:
        """Make the function."""
        text = "\n".join([f"def {function}({parameters}):", *self.lines])
        # The text is made of declarations in this package and of nothing a peer or user sent.
        exec(compile(text, f"<{name} v{self.version}>", "exec"), self.names)  # noqa: S102
        made: Callable[..., Any] = self.names[function]
        return made
