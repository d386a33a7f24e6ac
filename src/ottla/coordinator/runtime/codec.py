"""Binary format of the records in the logs of coordinators.

    key    type i16, then the key's message in version 0
    value  version i16, then the value's message in that version; null is a tombstone of the key

Readers skip a type that is not in the table: a newer broker wrote it. Any other record that cannot be decoded means
that the log is damaged. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

from ottla.base.errors import OttlaError, RemoteProtocolError
from ottla.coordinator.runtime.decision import LogRecord
from ottla.wire import codec
from ottla.wire.schema import Message

_PREFIX = Struct(">h")
_KEY_VERSION = 0


class DamagedRecord(OttlaError):
    """A record in a coordinator's log cannot be decoded."""


class RecordTable:
    """The record types of one coordinator."""

    def __init__(self, messages: Iterable[object]) -> None:
        """Match the keys and values among `messages`, for example the contents of a module, by their type number."""
        keys: dict[int, type[Message]] = {}
        values: dict[int, type[Message]] = {}
        for each in messages:
            if isinstance(each, type) and issubclass(each, Message) and hasattr(each, "SPEC"):
                table = {"coordinator-key": keys, "coordinator-value": values}.get(each.SPEC.kind)
                if table is not None:
                    table[each.SPEC.api_key] = each
        self._types = {number: (key, values[number]) for number, key in keys.items()}

    def decode(self, key: bytes | None, value: bytes | None) -> LogRecord | None:
        """Decode a record; None if its type is not in the table. Raises DamagedRecord."""
        try:
            (number,) = _PREFIX.unpack_from(key or b"")
            found = self._types.get(number)
            if found is None:
                return None
            key_type, value_type = found
            made = codec.decode(key_type, key or b"", _KEY_VERSION, start=_PREFIX.size)
            if value is None:
                return LogRecord(made)
            (version,) = _PREFIX.unpack_from(value)
            if version not in value_type.SPEC.versions:
                raise DamagedRecord(f"{value_type.__name__} does not have version {version}")
            return LogRecord(made, codec.decode(value_type, value, version, start=_PREFIX.size), version)
        except (StructError, RemoteProtocolError) as error:
            raise DamagedRecord(str(error)) from error


def encode_key(key: Message) -> bytes:
    return _PREFIX.pack(key.SPEC.api_key) + codec.encode(key, _KEY_VERSION)


def encode_value(record: LogRecord) -> bytes | None:
    if record.value is None:
        return None
    return _PREFIX.pack(record.version) + codec.encode(record.value, record.version)
