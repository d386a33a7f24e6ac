"""Records as JSON lines: what `consume -o jsonl` writes, `produce --input jsonl` reads and the console downloads.

    {"topic": "t", "partition": 0, "offset": 5, "timestamp": 1763373600000, "key": "k", "value": "v",
     "headers": [{"name": "h", "value": "x"}]}

Keys, values and header values are exact: text if the bytes are UTF-8, otherwise base64 in a member `key_base64` or
`value_base64` instead; null is null. Headers are a list, because names may be repeated and their order matters. A
timestamp is in milliseconds and absent if the record has none. When a line is read, `topic` and `offset` are ignored, a
value that is not a text is encoded as JSON, headers may also be an object, and `partition` and `timestamp` are used if
they are given. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from ottla.admin.records.decode import Decoder
from ottla.admin.records.scan import ConsumedRecord, Headers
from ottla.base.errors import LocalError

_MEMBERS: Final = frozenset(
    (
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestamp_type",
        "key",
        "key_base64",
        "value",
        "value_base64",
        "headers",
    )
)
_PARTITION_MAX: Final = 0x7FFF_FFFF
_TIMESTAMP_MAX: Final = 0x7FFF_FFFF_FFFF_FFFF


class InvalidRecord(LocalError):
    """Input that is not a record."""

    def __init__(self, message: str, number: int = 0) -> None:
        super().__init__(message)
        self.number = number
        """The line of the input; 0 if it is not known."""


class OutgoingRecord(NamedTuple):
    """A record to be produced."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    partition: int | None = None
    timestamp: int | None = None


def as_dict(record: ConsumedRecord, decoder: Decoder | None = None) -> dict[str, Any]:
    """A record for JSON. With a decoder, keys and values are what it returns, and need not be exact."""
    found: dict[str, Any] = {"topic": record.topic, "partition": record.partition, "offset": record.offset}
    if record.timestamp >= 0:
        found["timestamp"] = record.timestamp
    if decoder is None:
        found |= _exact("key", record.key) | _exact("value", record.value)
    else:
        found |= {"key": decoder.decode(record.key).value, "value": decoder.decode(record.value).value}
    found["headers"] = [{"name": name, **_exact("value", value)} for name, value in record.headers]
    return found


def to_line(record: ConsumedRecord, decoder: Decoder | None = None) -> bytes:
    """A record as one line of JSON, without the line end."""
    return msgspec.json.encode(as_dict(record, decoder))


def from_line(line: bytes | str) -> OutgoingRecord:
    """The record of one line. Raise InvalidRecord."""
    try:
        given = msgspec.json.decode(line)
    except (ValueError, RecursionError) as error:
        raise InvalidRecord(f"not JSON: {error}") from None
    if not isinstance(given, dict):
        raise InvalidRecord("not a JSON object")
    return from_dict(given)


def from_dict(given: Mapping[str, Any]) -> OutgoingRecord:
    """The record of the members of a line. Raise InvalidRecord."""
    unknown = sorted(given.keys() - _MEMBERS)
    if unknown:
        raise InvalidRecord(f"unknown member {unknown[0]!r} (known: {', '.join(sorted(_MEMBERS))})")
    return OutgoingRecord(
        _bytes(given, "key"),
        _bytes(given, "value"),
        _headers(given.get("headers")),
        _number(given, "partition", _PARTITION_MAX),
        _number(given, "timestamp", _TIMESTAMP_MAX),
    )


def _exact(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _bytes(given: Mapping[str, Any], name: str) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    if encoded is not None:
        if given.get(name) is not None:
            raise InvalidRecord(f"both {name} and {name}_base64 are given")
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise InvalidRecord(f"{name}_base64 is not base64: {error}") from None
    value = given.get(name)
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        raise InvalidRecord(f"{name} is nested too deep") from None


def _headers(given: Any) -> Headers:
    if given is None:
        return ()
    if isinstance(given, dict):
        return tuple((name, _bytes({"value": value}, "value")) for name, value in given.items())
    if not isinstance(given, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in given
    ):
        raise InvalidRecord('headers are a list of {"name": ..., "value": ...}, or an object')
    return tuple((one["name"], _bytes(one, "value")) for one in given)


def _number(given: Mapping[str, Any], name: str, limit: int) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
        raise InvalidRecord(f"{name} must be a whole number from 0 to {limit}, not {value!r}")
    return value
