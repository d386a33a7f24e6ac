"""Parsing of Spark options: case-insensitive names, numbers, flags, durations, and the client's settings.

Spark passes option names in any case. They are looked up in lower case and named in messages as the documentation
spells them. Options that begin with `kafka.` are settings of the client (`ClientSettings.from_options`), in Java's or
librdkafka's spelling. A setting that would break the source or the sink is rejected with an error. An unknown option
is ignored, as Spark's own sources do. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ottla.base.errors import LocalError

NO_TABLE_OPTIONS: Final = "; Spark does not pass on the options of CREATE TABLE: use CREATE TEMPORARY VIEW"
_CLIENT: Final = "kafka."
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_DURATION_UNITS_MS: Final = {
    None: 1,
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_ALWAYS_REJECTED: Final = {
    "auto.offset.reset": (
        "use startingOffsets instead. Spark keeps the offsets of a query itself, and a reset by the client would read "
        "records again or skip records without an error"
    ),
    "enable.auto.commit": "Spark keeps the offsets of a query itself; kafka.group.id commits its progress to a group",
    "interceptor.classes": "interceptors can change or drop what is read",
}


class Options:
    """The options that a user has given, by name in any case, with the conversions that several options share."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {key.lower(): value for key, value in given.items()}

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def positive(self, name: str) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        number = self.whole(name, 0)
        if number <= 0:
            raise LocalError(f"option {name} must be positive, got {text}")
        return number

    def whole(self, name: str, default: int) -> int:
        text = self.text(name)
        if text is None:
            return default
        try:
            return int(text.strip())
        except ValueError as error:
            raise LocalError(f"option {name} must be a whole number, got {text!r}") from error

    def flag(self, name: str, *, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        plain = text.strip().lower()
        if plain not in {"true", "false"}:
            raise LocalError(f"option {name} must be true or false, got {text!r}")
        return plain == "true"

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        text = self.text(name)
        if text is None:
            return default
        plain = text.strip().lower()
        if plain not in (known := tuple(allowed)):
            raise LocalError(f"option {name} must be one of {', '.join(known)}, got {text!r}")
        return plain

    def duration_ms(self, name: str, default: int) -> int:
        """A duration as Spark writes it: 15m, 30s, 500ms; a number without a unit is milliseconds."""
        text = self.text(name)
        if text is None:
            return default
        found = _DURATION.fullmatch(text.strip().lower())
        if found is None:
            raise LocalError(f"option {name} must be a duration such as 15m, 30s or 500ms, got {text!r}")
        return int(found[1]) * _DURATION_UNITS_MS[found[2]]

    def client(self, rejected: Mapping[str, str]) -> dict[str, str]:
        """The settings of the client, without their prefix; raises `LocalError` for a rejected one."""
        settings = {
            key.removeprefix(_CLIENT): value for key, value in self._given.items() if key.startswith(_CLIENT)
        }
        for key, reason in {**_ALWAYS_REJECTED, **rejected}.items():
            if key in settings:
                raise LocalError(f"option {_CLIENT}{key} is not supported: {reason}")
        if not settings.get("bootstrap.servers", "").strip():
            raise LocalError(f"option kafka.bootstrap.servers must be given{NO_TABLE_OPTIONS}")
        return settings
