r"""Glob patterns on text and bytes, matched in time proportional to the input.

    *        any text, also none
    ?        one character
    [abc]    one of these characters; ranges as in [a-z]; [!abc] is any other character
    \        the next character has no special meaning

A pattern is divided at its `*` into pieces of fixed length. The first piece is compared at the start, the last at the
end, and each piece between is searched once, from where the piece before it ended. There is no backtracking, so the
time is at most (length of the input) x (length of the longest piece). Pure and immutable.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ottla.base.errors import LocalError

PATTERN_MAX: Final = 1000


class InvalidGlob(LocalError):
    """A pattern that is not complete, or too long."""


class _Piece(NamedTuple):
    """A part of a pattern without `*`: its characters if none is special, otherwise one expression per character."""

    literal: str | None
    expression: re.Pattern[str]
    length: int


class Glob:
    """A compiled pattern. Matching is case-sensitive and applies to the whole input."""

    def __init__(self, pattern: str) -> None:
        if len(pattern) > PATTERN_MAX:
            raise InvalidGlob(f"a pattern can have {PATTERN_MAX} characters, not {len(pattern)}")
        self.pattern = pattern
        pieces = [_piece(part) for part in _split(pattern)]
        self._first, self._middle, self._last = (
            pieces[0],
            [one for one in pieces[1:-1] if one.length],
            pieces[-1],
        )
        self._single = len(pieces) == 1
        literals = [one.literal for one in pieces]
        self._literals = None if None in literals else [_encode(one or "") for one in literals]
        self.needle = _encode(max((one.literal or "" for one in pieces), key=len))
        """A text that every match contains; possibly empty."""

    def __repr__(self) -> str:
        return f"Glob({self.pattern!r})"

    def matches(self, given: bytes | str) -> bool:
        """Whether the whole input matches. Bytes are matched as UTF-8; invalid bytes match `?` one by one."""
        if isinstance(given, str):
            return self._matches_text(given)
        if self._literals is not None:
            return self._matches_literals(given, self._literals)
        return self._matches_text(given.decode("utf-8", "replace"))

    def _matches_literals(self, given: bytes, pieces: list[bytes]) -> bool:
        if self._single:
            return given == pieces[0]
        first, last = pieces[0], pieces[-1]
        end = len(given) - len(last)
        if end < len(first) or not given.startswith(first) or not given.endswith(last):
            return False
        index = len(first)
        for piece in pieces[1:-1]:
            found = given.find(piece, index, end)
            if found < 0:
                return False
            index = found + len(piece)
        return True

    def _matches_text(self, text: str) -> bool:
        if self._single:
            return self._first.expression.fullmatch(text) is not None
        index, end = self._first.length, len(text) - self._last.length
        if end < index or self._first.expression.match(text) is None:
            return False
        if self._last.expression.match(text, end) is None:
            return False
        for piece in self._middle:
            found = piece.expression.search(text, index, end)
            if found is None:
                return False
            index = found.end()
        return True


def _encode(text: str) -> bytes:
    """UTF-8. A lone surrogate, which no valid text contains, becomes bytes that no valid text contains."""
    return text.encode("utf-8", "surrogatepass")


def _split(pattern: str) -> list[list[str]]:
    """The tokens between the `*` of a pattern."""
    parts: list[list[str]] = [[]]
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "*":
            parts.append([])
            index += 1
            continue
        token, index = _token(pattern, index)
        parts[-1].append(token)
    return parts


def _token(pattern: str, index: int) -> tuple[str, int]:
    """One token, and the index after it: `?`, a class with its brackets, or a backslash with a character."""
    char = pattern[index]
    if char == "\\":
        if index + 1 == len(pattern):
            raise InvalidGlob(f"the pattern {pattern!r} ends with a backslash")
        return pattern[index : index + 2], index + 2
    if char == "[":
        # A bracket that follows the opening one is a member of the class, as in shells.
        end = pattern.find("]", index + (3 if pattern[index + 1 : index + 2] == "!" else 2))
        if end < 0:
            raise InvalidGlob(f"the pattern {pattern!r} has a [ without ]")
        return pattern[index : end + 1], end + 1
    return (char if char == "?" else "\\" + char), index + 1


def _piece(tokens: list[str]) -> _Piece:
    is_literal = all(token[0] == "\\" for token in tokens)
    literal = "".join(token[1:] for token in tokens) if is_literal else None
    expression = "".join(_expression(token) for token in tokens)
    return _Piece(literal, re.compile(expression, re.DOTALL), len(tokens))


def _expression(token: str) -> str:
    if token.startswith("?"):
        return "."
    if token[0] == "\\":
        return re.escape(token[1])
    return _class(token[1:-1])


def _class(content: str) -> str:
    negated = content.startswith("!")
    members = content[1:] if negated else content
    ranges, index = [], 0
    while index < len(members):
        if members[index + 1 : index + 2] == "-" and index + 2 < len(members):
            low, high = members[index], members[index + 2]
            if low > high:
                raise InvalidGlob(f"the range {low}-{high} of a pattern has no characters")
            ranges.append(f"{re.escape(low)}-{re.escape(high)}")
            index += 3
        else:
            ranges.append(re.escape(members[index]))
            index += 1
    return f"[{'^' if negated else ''}{''.join(ranges)}]"
