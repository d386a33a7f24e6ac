"""The file system calls of a process, as the preloaded library of `faults` records them, and rules about them.

A trace is a list of calls with marks of the test between them. Two kinds of rules are checked: calls that must occur
in an order (`missing`), and what must be durable at a point (`Durability`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

MARK = "mark"


class Call(NamedTuple):
    """One successful call; `path` and `target` are relative to the observed directory, which is '.'."""

    kind: str
    path: str
    target: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.path} {self.target}".rstrip()


class Trace:
    def __init__(self, file: Path) -> None:
        self._file = file

    def mark(self, name: str) -> None:
        """Note that something happened after all calls recorded so far."""
        with self._file.open("a") as file:
            file.write(f"{MARK}\t{name}\t\n")

    def calls(self) -> list[Call]:
        return [Call(*line.split("\t")) for line in self._file.read_text().splitlines()]

    def between(self, begin: str, end: str) -> list[Call]:
        calls = self.calls()
        return calls[calls.index(Call(MARK, begin)) + 1 : calls.index(Call(MARK, end))]

    def has(self, *required: str, since: str) -> bool:
        """Whether these calls were recorded, in this order, after a mark."""
        calls = self.calls()
        return missing(calls[calls.index(Call(MARK, since)) :], required) is None


def matches(call: Call, wanted: str) -> bool:
    """Whether a call is of the form 'kind path' or 'rename path target'; shell patterns, * stays in a directory."""
    words = wanted.split()
    found = [call.kind, call.path, call.target][: len(words)]
    return all(
        pattern.count("/") == text.count("/") and fnmatchcase(text, pattern)
        for text, pattern in zip(found, words, strict=True)
    )


def missing(calls: Iterable[Call], required: Sequence[str]) -> str | None:
    """The first of the required calls that does not follow the one before it; None if all do.

    Any of several forms is written with ' | ' between them.
    """
    left = iter(calls)
    for each in required:
        forms = each.split(" | ")
        if not any(matches(call, form) for call in left for form in forms):
            return each
    return None


class Durability:
    """Which contents and names would be lost by a power failure after the calls so far."""

    def __init__(self) -> None:
        self.contents: set[str] = set()
        self.names: set[str] = set()

    def replay(self, call: Call) -> None:
        kind, path, target = call
        if kind in ("write", "truncate"):
            self.contents.add(path)
        elif kind == "sync":
            self.contents.discard(path)
            self.names = {name for name in self.names if _parent(name) != path}
        elif kind == "sync-all":
            self.contents, self.names = set(), set()
        elif kind in ("create", "mkdir", "remove"):
            self.names.add(path)
            self.contents.discard(path)
        elif kind == "rename":
            self.names |= {path, target}
            self.contents = {_moved(each, path, target) for each in self.contents if each != target}
            self.names = {_moved(each, path, target) for each in self.names} | {path}

    def lost(self, pattern: str) -> set[str]:
        """What of a path, and of the directories above it, would be lost."""
        parents = [pattern]
        while (above := _parent(parents[-1])) != ".":
            parents.append(above)
        names = {name for name in self.names for each in parents if _same_level(name, each)}
        return names | {path for path in self.contents if _same_level(path, pattern)}


def _same_level(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "."


def _moved(path: str, source: str, target: str) -> str:
    """Where a path is after a rename of `source`."""
    return target + path[len(source) :] if path == source or path.startswith(f"{source}/") else path
