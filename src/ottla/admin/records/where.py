"""Filters of records: expressions over key, value, headers, topic, partition, offset and timestamp.

`where_syntax` has the grammar. Rules of evaluation:

- `key`, `value` and `headers.x` are bytes. They are compared as UTF-8 text; if the other side is a number, the text is
  read as a number; if it is true or false, as that word. `value.x` and `key.x` are members of a JSON document; a value
  that is not JSON has no members. `topic` is text, the others are numbers; the timestamp is in milliseconds.
- Values of different types are not equal, and none is less than the other. A missing member equals null. `value = null`
  matches tombstones.
- If a field on the left side has several values (a repeated header, `items[*]`), a comparison holds if it holds for one
  of them. On the right side, the last of repeated headers counts.
- `!=` and `!~` are the negations of `=` and `~`, so `headers.x != "a"` holds if no header x is "a".
- A field without a comparison holds unless it is missing, null or false.

Expressions are compiled to closures, never to Python code. Evaluation cannot fail: each operator is defined for all
values. It takes time proportional to the record (globs are matched without backtracking, JSON is parsed once and only
if a condition that needs it is reached). A filter is immutable and may be used by several threads.

`needles` lets a reader skip records without evaluation: texts that a key or value must contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec

from ottla.admin.positions import parse_position
from ottla.admin.records.globs import Glob, InvalidGlob
from ottla.admin.records.where_syntax import (
    Comparison,
    Field,
    InvalidExpression,
    Joined,
    Literal,
    Node,
    Not,
    Operand,
    Present,
    Time,
    parse,
)

__all__ = ["Filter", "InvalidExpression", "Needle", "Row", "compile_filter", "key_filter"]

MISSING: Final = object()
_NUMBER_TEXT_MAX: Final = 400


class Row:
    """One record as filters see it. JSON documents are parsed when they are needed."""

    __slots__ = (
        "_json_key",
        "_json_value",
        "headers",
        "key",
        "offset",
        "partition",
        "timestamp",
        "topic",
        "value",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int = -1,
        timestamp: int = -1,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self._json_key: Any = self
        self._json_value: Any = self

    def json_key(self) -> Any:
        if self._json_key is self:
            self._json_key = _parse_json(self.key)
        return self._json_key

    def json_value(self) -> Any:
        if self._json_value is self:
            self._json_value = _parse_json(self.value)
        return self._json_value


def _parse_json(data: bytes | None) -> Any:
    try:
        return msgspec.json.decode(data or b"")
    except (ValueError, RecursionError):
        return MISSING


class Needle(NamedTuple):
    """A text that a column must contain. In a JSON document it may be hidden by escapes, which have a backslash."""

    column: str
    text: bytes
    is_json: bool


Condition = Callable[[Row], bool]
Values = Callable[[Row], Iterable[Any]]


@dataclass(frozen=True)
class Filter:
    """A compiled expression."""

    text: str
    matches: Condition
    columns: frozenset[str]
    """The roots of the fields that the expression uses."""
    needles: tuple[Needle, ...]
    """All of them are contained in every record that matches."""

    def __and__(self, other: Filter) -> Filter:
        one, two = self.matches, other.matches
        return Filter(
            f"({self.text}) and ({other.text})",
            lambda row: one(row) and two(row),
            self.columns | other.columns,
            self.needles + other.needles,
        )


def compile_filter(text: str, now_ms: int) -> Filter:
    """Compile an expression; `now_ms` is the time that `@-1h` refers to. Raise InvalidExpression."""
    node = parse(text)
    return Filter(text, _condition(node, now_ms), frozenset(_roots(node)), tuple(_needles(node)))


def key_filter(pattern: str) -> Filter:
    """A filter of records whose keys match a glob. Raise InvalidGlob."""
    glob = Glob(pattern)
    needles = (Needle("key", glob.needle, False),) if glob.needle else ()
    return Filter(
        f"key ~ {pattern!r}",
        lambda row: row.key is not None and glob.matches(row.key),
        frozenset({"key"}),
        needles,
    )


# --- what an expression needs


def _roots(node: Node) -> Iterable[str]:
    match node:
        case Joined(operands=operands):
            for operand in operands:
                yield from _roots(operand)
        case Not(operand=operand):
            yield from _roots(operand)
        case Present(field=field):
            yield field.root
        case Comparison(left=left, right=right):
            yield left.root
            if isinstance(right, Field):
                yield right.root


def _needles(node: Node) -> Iterable[Needle]:
    """Texts without which a record cannot match: only conditions that all must hold have some."""
    if isinstance(node, Joined) and node.word == "and":
        for operand in node.operands:
            yield from _needles(operand)
    if not isinstance(node, Comparison) or not isinstance(node.right, Literal):
        return
    text, field = node.right.value, node.left
    if field.root not in ("key", "value") or not isinstance(text, str):
        return
    if node.operator == "=":
        needle = text.encode("utf-8", "surrogatepass")
    elif node.operator == "~":
        needle = Glob(text).needle
    else:
        return
    if needle:
        yield Needle(field.root, needle, bool(field.steps))


# --- conditions


def _condition(node: Node, now_ms: int) -> Condition:
    match node:
        case Joined(word=word, operands=operands):
            return _joined(word, [_condition(operand, now_ms) for operand in operands])
        case Not(operand=operand):
            inner = _condition(operand, now_ms)
            return lambda row: not inner(row)
        case Present(field=field):
            values = _values(field)
            return lambda row: any(
                value is not None and value is not False and value is not MISSING for value in values(row)
            )
        case Comparison():
            return _comparison(node, now_ms)


def _joined(word: str, conditions: list[Condition]) -> Condition:
    if word == "and":
        return lambda row: all(condition(row) for condition in conditions)
    return lambda row: any(condition(row) for condition in conditions)


def _comparison(node: Comparison, now_ms: int) -> Condition:
    if node.operator in ("!=", "!~"):
        positive = _comparison(node._replace(operator=node.operator[1]), now_ms)
        return lambda row: not positive(row)
    lefts = _values(node.left)
    if node.operator == "~":
        glob = _glob(node)
        return lambda row: any(isinstance(left, bytes | str) and glob.matches(left) for left in lefts(row))
    compare = _COMPARE[node.operator]
    if isinstance(node.right, Field):
        if None in node.right.steps:
            raise InvalidExpression("[*] can be used on the left side only", node.at)
        rights = _values(node.right)

        def compare_fields(row: Row) -> bool:
            right = _text_of(list(rights(row))[-1])
            return any(compare(left, right) for left in lefts(row))

        return compare_fields
    constant = _constant(node.right, now_ms)
    return lambda row: any(compare(left, constant) for left in lefts(row))


def _glob(node: Comparison) -> Glob:
    if not isinstance(node.right, Literal) or not isinstance(node.right.value, str):
        raise InvalidExpression("a pattern in quotes follows ~", node.at)
    try:
        return Glob(node.right.value)
    except InvalidGlob as error:
        raise InvalidExpression(str(error), node.at) from None


def _constant(operand: Operand, now_ms: int) -> Any:
    if isinstance(operand, Time):
        return parse_position(operand.text).timestamp(now_ms)
    assert isinstance(operand, Literal)  # noqa: S101 - fields are handled by the caller
    return operand.value


# --- values of fields


def _values(field: Field) -> Values:
    """All values of a field in a record; MISSING for a member that does not exist."""
    if field.root == "headers":
        name = field.steps[0]
        return lambda row: [value for key, value in row.headers if key == name] or (MISSING,)
    if not field.steps:
        root = field.root
        return lambda row: (getattr(row, root),)
    document = Row.json_key if field.root == "key" else Row.json_value
    steps = field.steps
    if None in steps:
        return lambda row: _all_members(document(row), steps)
    return lambda row: (_member(document(row), steps),)


def _member(value: Any, steps: Sequence[str | int | None]) -> Any:
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return MISSING
        elif not isinstance(value, list) or step is None or step >= len(value):
            return MISSING
        value = value[step]
    return value


def _all_members(value: Any, steps: Sequence[str | int | None]) -> list[Any]:
    found = [value]
    for step in steps:
        if step is None:
            found = [element for one in found if isinstance(one, list) for element in one]
        else:
            found = [member for one in found if (member := _member(one, (step,))) is not MISSING]
    return found or [MISSING]


# --- comparisons of values


def _text_of(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _as_type_of(left: Any, right: Any) -> Any:
    """The bytes of a record as the type of what they are compared with; MISSING if they are not of that type."""
    if isinstance(right, str):
        return left.decode("utf-8", "replace")
    if isinstance(right, bool):
        return {b"true": True, b"false": False}.get(left, MISSING)
    if isinstance(right, int | float):
        return _number_of(left)
    return left


def _number_of(data: bytes) -> Any:
    if len(data) > _NUMBER_TEXT_MAX:
        return MISSING
    try:
        number = msgspec.json.decode(data.strip())
    except (ValueError, RecursionError):
        return MISSING
    return number if isinstance(number, int | float) and not isinstance(number, bool) else MISSING


def _equal(left: Any, right: Any) -> bool:
    if right is None or right is MISSING:
        return left is None or left is MISSING
    if isinstance(left, bytes):
        if isinstance(right, str):
            if _REPLACED in right:  # a text that was made of bytes that are not UTF-8
                return bool(_as_type_of(left, right) == right)
            return left == right.encode("utf-8", "surrogatepass")
        left = _as_type_of(left, right)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _less(left: Any, right: Any) -> bool:
    return _are_ordered(left := _aligned(left, right), right) and left < right


def _less_or_equal(left: Any, right: Any) -> bool:
    return _are_ordered(left := _aligned(left, right), right) and left <= right


def _greater(left: Any, right: Any) -> bool:
    return _are_ordered(left := _aligned(left, right), right) and left > right


def _greater_or_equal(left: Any, right: Any) -> bool:
    return _are_ordered(left := _aligned(left, right), right) and left >= right


def _aligned(left: Any, right: Any) -> Any:
    return _as_type_of(left, right) if isinstance(left, bytes) else left


def _are_ordered(left: Any, right: Any) -> bool:
    """Numbers and texts have an order, truth values and documents have none."""
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    if isinstance(left, str):
        return isinstance(right, str)
    return isinstance(left, int | float) and isinstance(right, int | float)


_REPLACED: Final = "\N{REPLACEMENT CHARACTER}"
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": _equal,
    "<": _less,
    "<=": _less_or_equal,
    ">": _greater,
    ">=": _greater_or_equal,
}
