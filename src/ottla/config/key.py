"""The declaration of a setting: name, type, default, allowed values, and its status in Ottla; and its parser.

The tables (`config/tables/`) consist of `ConfigKey`s. Names, types, defaults, importance and update modes are Kafka
4.3's; the documentation is Ottla's. Defaults are text, in the form of DescribeConfigs, and `parse()` converts text
to a typed value, so a default passes the same checks as a value that is set.
"""

from __future__ import annotations

import re
from enum import IntEnum, StrEnum

from msgspec import Struct

from ottla.base.errors import LocalError
from ottla.config.checks import Check

Value = bool | int | float | str | list[str] | None
"""A parsed setting. PASSWORD and CLASS values are strings, LIST values lists of strings."""


class ConfigType(IntEnum):
    """Types of settings, numbered as DescribeConfigs sends them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(StrEnum):
    """Kafka's importance of a setting."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Scope(StrEnum):
    """When a broker setting can change: only at start, per broker, or for the whole cluster while it runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Status(StrEnum):
    """What this release does with a setting."""

    HONOURED = "honoured"
    ACCEPTED = "accepted"  # checked and described, but without effect; the log lists it
    PROTECTIVE = "protective"  # for protection that does not exist yet: only the default is allowed


class ConfigKey(Struct, frozen=True):
    """One setting. `default` is Kafka's unless `own_defaults` names it; None means null."""

    name: str
    type: ConfigType
    default: str | None
    importance: Importance
    scope: Scope
    status: Status
    check: Check
    doc: str
    internal: bool = False
    required: bool = False
    synonyms: tuple[tuple[str, int], ...] = ()
    """Of a topic or group setting: the broker settings that are its default, each with the factor of its unit."""

    @property
    def honoured(self) -> bool:
        return self.status is Status.HONOURED

    @property
    def protective(self) -> bool:
        return self.status is Status.PROTECTIVE

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def allowed(self) -> str:
        """The allowed values as one phrase: `a whole number, at least 1`."""
        return f"{_TYPE_TEXT[self.type]}, {self.check.text}" if self.check.text else _TYPE_TEXT[self.type]


class ConfigRefused(LocalError):
    """A setting that is refused; the text names it and what is allowed."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = name


_TYPE_TEXT = {
    ConfigType.UNKNOWN: "text",
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "a whole number of 32 bits",
    ConfigType.SHORT: "a whole number of 16 bits",
    ConfigType.LONG: "a whole number of 64 bits",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a comma-separated list",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a secret",
}
_BITS = {ConfigType.INT: 32, ConfigType.SHORT: 16, ConfigType.LONG: 64}
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL = re.compile(r"([+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)[dDfF]?")
_COMMA = re.compile(r"\s*,\s*")


def parse(key: ConfigKey, text: str | None) -> Value:
    """Parse and check a value; raises ConfigRefused with what is allowed."""
    value = None if text is None else _convert(key, text.strip())
    complaint = key.check.complaint(value)
    if complaint is not None:
        raise refused(key, text, complaint)
    return value


def refused(key: ConfigKey, text: str | None, complaint: str) -> ConfigRefused:
    shown = "(hidden)" if key.sensitive else repr(text)
    return ConfigRefused(key.name, f"{key.name}={shown}: {complaint}; allowed: {key.allowed}")


def _convert(key: ConfigKey, text: str) -> Value:
    if key.type is ConfigType.BOOLEAN:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise refused(key, text, "not a boolean")
        return lowered == "true"
    if key.type in _BITS:
        limit = 1 << (_BITS[key.type] - 1)
        if not _WHOLE.fullmatch(text) or not -limit <= int(text) < limit:
            raise refused(key, text, "not a number of this type")
        return int(text)
    if key.type is ConfigType.DOUBLE:
        match = _DECIMAL.fullmatch(text)
        if match is None:
            raise refused(key, text, "not a number")
        return float(match[1])
    if key.type is ConfigType.LIST:
        entries = _COMMA.split(text) if text else []
        return list(dict.fromkeys(entries)) if key.check.once else entries
    return text


def to_text(value: Value) -> str | None:
    """The inverse of `parse`, in Kafka's form: lists joined by commas, booleans in lower case."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    return _float_text(value) if isinstance(value, float) else str(value)


def _float_text(value: float) -> str:
    """Python's shortest form, with Java's notation of the exponent."""
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa
    if "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}E{int(exponent)}"
