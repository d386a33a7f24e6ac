r"""Parser of `.properties` files with Java's rules, so that a server.properties of Kafka can be used.

One entry per line, `name=value`, `name: value` or `name value`; `#` and `!` start a comment line; a backslash at
the end joins the next line without its leading blanks; `\t \n \r \f \uXXXX` are escapes, and any other escaped
character is itself. If a name occurs several times, the last entry is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ottla.base.errors import LocalError

_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NAME = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """Parse all entries of a file; raises LocalError for a malformed escape."""
    entries: dict[str, str] = {}
    for line in _logical_lines(text):
        name = _NAME.match(line)
        name_end = name.end() if name else 0
        separator = _SEPARATOR.match(line, name_end)
        value_start = separator.end() if separator else name_end
        entries[_unescape(line[:name_end])] = _unescape(line[value_start:])
    return entries


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank lines; continuation lines are joined."""
    joined: str | None = None
    for raw in _LINE_END.split(text):
        line = raw.lstrip(_BLANK)
        if not joined and (not line or line[0] in "#!"):
            joined = None
            continue
        whole = line if joined is None else joined + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined = whole[:-1]
            continue
        joined = None
        yield whole
    if joined is not None:
        yield joined


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_meaning, text) if "\\" in text else text


def _meaning(escape: re.Match[str]) -> str:
    body = escape[1]
    if body[0] != "u":
        return _CONTROL.get(body, body)
    if len(body) == 1:
        raise LocalError("a \\u escape in the properties file needs four hexadecimal digits")
    return chr(int(body[1:], 16))
