"""Checks on the parsed value of one setting: ranges, enumerations, lists.

A check has a `text`, which continues the phrase "allowed: a whole number, …", and a function that returns what is
wrong with a value, or None. As in Kafka, null is refused by every check that does not allow it explicitly.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct


class Check(Struct, frozen=True):
    """A check of one value and its description."""

    text: str
    complaint: Callable[[object], str | None]
    once: bool = False
    """Repeated entries of a list are removed."""


def _nothing(_value: object) -> str | None:
    return None


ANYTHING = Check("", _nothing)


def at_least(low: float) -> Check:
    def complaint(value: object) -> str | None:
        if not isinstance(value, int | float):
            return "a value is required"
        return f"below {low}" if value < low else None

    return Check(f"at least {low}", complaint)


def between(low: float, high: float) -> Check:
    def complaint(value: object) -> str | None:
        if not isinstance(value, int | float):
            return "a value is required"
        return None if low <= value <= high else "out of range"

    return Check(f"from {low} to {high}", complaint)


def between_or(low: int, high: int, extra: int) -> Check:
    def complaint(value: object) -> str | None:
        return None if value == extra or (isinstance(value, int) and low <= value <= high) else "out of range"

    return Check(f"from {low} to {high}, or {extra}", complaint)


def one_of(*allowed: str) -> Check:
    def complaint(value: object) -> str | None:
        return None if value in allowed else "unknown value"

    return Check("one of " + ", ".join(allowed), complaint)


def one_of_any_case(*allowed: str) -> Check:
    def complaint(value: object) -> str | None:
        return None if isinstance(value, str) and value.upper() in allowed else "unknown value"

    return Check("one of " + ", ".join(allowed) + " in any case", complaint)


def items(*allowed: str, empty: bool = True, null: bool = False) -> Check:
    """A list without empty entries; repeated entries are removed. Without `allowed` any text is allowed."""

    def complaint(value: object) -> str | None:
        if value is None:
            return None if null else "a value is required"
        if not isinstance(value, list):
            return "not a list"
        if not value and not empty:
            return "the list is empty"
        return _entries_complaint(value, allowed)

    texts = ["entries from " + ", ".join(allowed)] if allowed else []
    texts.append("no entry empty" if empty else "at least one entry, none empty")
    return Check(", ".join(texts), complaint, once=True)


def _entries_complaint(entries: list[str], allowed: tuple[str, ...]) -> str | None:
    for entry in entries:
        if not entry:
            return "an entry is empty"
        if allowed and entry not in allowed:
            return f"unknown entry {entry!r}"
    return None


def _filled(value: object) -> str | None:
    return "empty" if value == "" else None


FILLED = Check("not empty", _filled)


def _present(value: object) -> str | None:
    return "a value is required" if value is None else None


PRESENT = Check("not null", _present)


def entries_like(pattern: str, form: str) -> Check:
    """A list whose entries all match `pattern`; `form` describes it."""
    compiled = re.compile(pattern)

    def complaint(value: object) -> str | None:
        if not isinstance(value, list):
            return "a value is required"
        bad = next((entry for entry in value if not compiled.fullmatch(entry)), None)
        return None if bad is None else f"entry {bad!r} does not have this form"

    return Check(f"entries of the form {form}", complaint)


_REPLICA = re.compile(r"([0-9]+:[0-9]+)?")


def _throttled(value: object) -> str | None:
    if not isinstance(value, list):
        return "a value is required"
    if value == ["*"] or all(_REPLICA.fullmatch(entry) for entry in value):
        return None
    return "not a list of replicas"


THROTTLED_REPLICAS = Check("* or entries of the form partition:broker", _throttled)

_DURATION = re.compile(
    r"by_duration:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?", re.IGNORECASE
)


def _offset_reset(value: object) -> str | None:
    if isinstance(value, str) and (value in ("latest", "earliest") or _DURATION.fullmatch(value)):
        return None
    return "unknown value"


OFFSET_RESET = Check("latest, earliest or by_duration:PnDTnHnMn.nS", _offset_reset)
