r"""Syntax of the expression language of `--where`: text to a tree. Pure.

    expression  = term ("or" term)*
    term        = factor ("and" factor)*
    factor      = "not" factor | "(" expression ")" | field [operator operand]
    operator    = "=" | "==" | "!=" | "<" | "<=" | ">" | ">=" | "~" | "!~"
    operand     = field | text | number | "true" | "false" | "null" | "@" time
    field       = root ("." name | "[" index "]" | "[" text "]" | "[*]")*
    root        = "key" | "value" | "headers" | "topic" | "partition" | "offset" | "timestamp"

Text is in single or double quotes, with the escapes \n \r \t \\ \" \' and \uXXXX; \* \? and \[ are kept for globs. A
time has the syntax of positions: `@2026-11-17T10:00`, `@-1h`. The length of an expression, its depth and the steps of a
field are limited. Every error has the index of the character that caused it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.admin.positions import InvalidPosition, Kind, parse_position
from ottla.base.errors import LocalError

LENGTH_MAX: Final = 4000
DEPTH_MAX: Final = 50
STEPS_MAX: Final = 32
ROOTS: Final = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
WITH_STEPS: Final = ("key", "value", "headers")
OPERATORS: Final = ("==", "!=", "<=", ">=", "!~", "=", "<", ">", "~")
_CONSTANTS: Final = {"true": True, "false": False, "null": None}
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "'": "'"}
_KEPT_ESCAPES: Final = "*?["
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<time>@[^\s()]+)|(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))"
    r"|(?P<name>[^\W\d][\w$-]*)|(?P<operator>==|!=|<=|>=|!~|[=<>~])|(?P<sign>[().\[\]*])|(?P<quote>[\"'])"
)
_STEP_NAME = re.compile(r"[\w$-]+")
_NUMBER_MAX: Final = 400
"""Digits: more than any number of JSON needs, and far below what takes noticeable time."""


class InvalidExpression(LocalError):
    """An expression with an error in it, at the character `index`."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(f"{message} (character {index + 1} of the expression)")
        self.index = index


Constant = str | int | float | bool | None
Step = str | int | None
"""The name of a member, the index of an element, or None for all elements."""


class Field(NamedTuple):
    root: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Literal:
    value: Constant


@dataclass(frozen=True)
class Time:
    """A time that is resolved when the expression is compiled."""

    text: str


Operand = Field | Literal | Time


class Comparison(NamedTuple):
    operator: str
    left: Field
    right: Operand
    at: int
    """Where the right side starts, for errors that the compiler finds."""


class Present(NamedTuple):
    field: Field


class Not(NamedTuple):
    operand: Node


class Joined(NamedTuple):
    """All (`and`) or any (`or`) of the operands."""

    word: str
    operands: tuple[Node, ...]


Node = Comparison | Present | Not | Joined


class _Token(NamedTuple):
    kind: str
    text: str
    at: int
    end: int


def parse(text: str) -> Node:
    """Parse an expression. Raise InvalidExpression."""
    if len(text) > LENGTH_MAX:
        raise InvalidExpression(f"the expression is longer than {LENGTH_MAX} characters", LENGTH_MAX)
    parser = _Parser(text)
    node = parser.joined("or", 0)
    parser.expect_end()
    return node


class _Parser:
    """Recursive descent with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._token = self._read(0)

    def _read(self, index: int) -> _Token:
        found = _TOKEN.match(self._text, index)
        if found is not None and found.lastgroup == "space":
            return self._read(found.end())
        if found is None:
            if index < len(self._text):
                raise InvalidExpression(f"{self._text[index]!r} is not part of the language", index)
            return _Token("end", "", index, index)
        return _Token(found.lastgroup or "", found[0], index, found.end())

    def _advance(self) -> _Token:
        token = self._token
        self._token = self._read(token.end)
        return token

    def _found(self) -> str:
        return "the end" if self._token.kind == "end" else repr(self._token.text)

    def _is_word(self, word: str) -> bool:
        return self._token.kind == "name" and self._token.text.lower() == word

    def _is(self, text: str) -> bool:
        return self._token.kind in ("sign", "operator") and self._token.text == text

    def expect_end(self) -> None:
        if self._token.kind != "end":
            raise InvalidExpression(f"expected 'and', 'or' or the end, found {self._found()}", self._token.at)

    # --- conditions

    def joined(self, word: str, depth: int) -> Node:
        operands = [self._operand_of(word, depth)]
        while self._is_word(word):
            self._advance()
            operands.append(self._operand_of(word, depth))
        return operands[0] if len(operands) == 1 else Joined(word, tuple(operands))

    def _operand_of(self, word: str, depth: int) -> Node:
        return self.joined("and", depth) if word == "or" else self._factor(depth)

    def _factor(self, depth: int) -> Node:
        if depth > DEPTH_MAX:
            raise InvalidExpression(f"the expression is nested more than {DEPTH_MAX} deep", self._token.at)
        if self._is_word("not"):
            self._advance()
            return Not(self._factor(depth + 1))
        if self._is("("):
            opened = self._advance()
            node = self.joined("or", depth + 1)
            if not self._is(")"):
                raise InvalidExpression(f"this ( has no ), found {self._found()} instead", opened.at)
            self._advance()
            return node
        return self._condition()

    def _condition(self) -> Node:
        left = self._field()
        if self._token.kind != "operator":
            return Present(left)
        operator = self._advance().text
        index = self._token.at
        return Comparison("=" if operator == "==" else operator, left, self._operand(), index)

    # --- operands

    def _operand(self) -> Operand:
        token = self._token
        if token.kind == "quote":
            return Literal(self._string())
        if token.kind == "number":
            self._advance()
            return Literal(_number(token))
        if token.kind == "time":
            self._advance()
            return _time(token)
        if token.kind == "name" and token.text in _CONSTANTS:
            self._advance()
            return Literal(_CONSTANTS[token.text])
        if token.kind == "name" and token.text not in ROOTS:
            raise InvalidExpression(f"text is written in quotes: {token.text!r}", token.at)
        return self._field()

    def _field(self) -> Field:
        token = self._token
        if token.kind != "name" or token.text not in ROOTS:
            raise InvalidExpression(
                f"expected a field ({', '.join(ROOTS)}, value.name, headers.name), found {self._found()}",
                token.at,
            )
        end = token.end
        steps: list[Step] = []
        while self._text[end : end + 1] in (".", "[") and end < len(self._text):
            if token.text not in WITH_STEPS:
                raise InvalidExpression(f"{token.text} has no members", end)
            if len(steps) == STEPS_MAX:
                raise InvalidExpression(f"a field can have {STEPS_MAX} steps", end)
            step, end = self._step(end)
            steps.append(step)
        if token.text == "headers" and (len(steps) != 1 or not isinstance(steps[0], str)):
            raise InvalidExpression("headers is followed by one name, as in headers.name", token.at)
        self._token = self._read(end)
        return Field(token.text, tuple(steps))

    def _step(self, index: int) -> tuple[Step, int]:
        """The step at an index. Names after a dot have no keywords, so steps are not read as tokens."""
        if self._text[index] == ".":
            found = _STEP_NAME.match(self._text, index + 1)
            if found is None:
                raise InvalidExpression("a name follows the dot", index + 1)
            return found[0], found.end()
        self._token = self._read(index + 1)
        inner = self._token
        step: Step
        if inner.kind == "quote":
            step = self._string()
        elif inner.kind == "sign" and inner.text == "*":
            self._advance()
            step = None
        elif inner.kind == "number" and re.fullmatch(r"[0-9]{1,9}", inner.text):
            self._advance()
            step = int(inner.text)
        else:
            raise InvalidExpression(
                f"expected an index, a text or * in brackets, found {self._found()}", inner.at
            )
        if not self._is("]"):
            raise InvalidExpression(f"expected ], found {self._found()}", self._token.at)
        return step, self._token.end

    def _string(self) -> str:
        """The text in quotes at the current token, which becomes the token after it."""
        opened = self._token
        index = opened.end
        parts: list[str] = []
        while True:
            char = self._text[index : index + 1]
            if char == "":
                raise InvalidExpression("this quote is not closed", opened.at)
            if char == opened.text:
                self._token = self._read(index + 1)
                return "".join(parts)
            if char == "\\":
                char, index = self._escape(index)
                parts.append(char)
            else:
                parts.append(char)
                index += 1

    def _escape(self, index: int) -> tuple[str, int]:
        char = self._text[index + 1 : index + 2]
        if char in _ESCAPES:
            return _ESCAPES[char], index + 2
        if char and char in _KEPT_ESCAPES:
            return "\\" + char, index + 2
        digits = self._text[index + 2 : index + 6]
        if char == "u" and re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            return chr(int(digits, 16)), index + 6
        raise InvalidExpression(
            "unknown escape: \\n \\r \\t \\\\ \\\" \\' \\uXXXX \\* \\? \\[ are known", index
        )


def _number(token: _Token) -> int | float:
    if len(token.text) > _NUMBER_MAX:
        raise InvalidExpression(f"a number can have {_NUMBER_MAX} digits", token.at)
    return int(token.text) if re.fullmatch(r"[+-]?[0-9]+", token.text) else float(token.text)


def _time(token: _Token) -> Time:
    try:
        position = parse_position(token.text)
    except InvalidPosition:
        position = None
    if position is None or position.kind not in (Kind.TIME, Kind.AGO):
        raise InvalidExpression(f"{token.text!r} is not a time such as @2026-11-17T10:00 or @-1h", token.at)
    return Time(token.text)
