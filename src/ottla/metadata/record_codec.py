"""Encoding of a metadata record: a frame of three varints, then the message.

    frame version   unsigned varint   always 1
    record type     unsigned varint   the api key of the record's declaration
    record version  unsigned varint
    message         in that version

A record is written in the highest version that the finalized `metadata.version` of the cluster allows, so that
other nodes can read it. A type or version that this release does not support is a `LocalError`: a newer release
wrote the directory, and ignoring the record would lose data.

The quorum stores encoded records as values. Its own control records are not metadata records.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import LocalError, RemoteProtocolError, invariant
from ottla.base.varint import read_uvarint
from ottla.metadata import records as declared
from ottla.wire import codec
from ottla.wire.schema import Message

_FRAME_VERSION: Final = 1

RECORD_TYPES: Final[dict[int, type[Message]]] = {
    cls.SPEC.api_key: cls
    for cls in vars(declared).values()
    if isinstance(cls, type) and issubclass(cls, Message) and getattr(cls, "SPEC", None) is not None
}

# Record versions above the first, each with the metadata.version that allows it: (metadata.version, record version).
_SINCE: Final[dict[type[Message], tuple[tuple[int, int], ...]]] = {
    declared.RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (7, 1)),
    declared.BrokerRegistrationChangeRecord: ((30, 3), (17, 2), (7, 1)),
    declared.PartitionRecord: ((23, 2), (17, 1)),
    declared.PartitionChangeRecord: ((23, 2), (17, 1)),
}


def version_for(record_type: type[Message], metadata_version: int) -> int:
    """The version in which a record of this type is written at a finalized `metadata.version`."""
    for since, version in _SINCE.get(record_type, ()):
        if metadata_version >= since:
            return version
    return record_type.SPEC.versions.start


def encode_record(record: Message, metadata_version: int) -> bytes:
    """Encode a record as a stored value."""
    record_type = type(record)
    version = version_for(record_type, metadata_version)
    frame = bytes((_FRAME_VERSION, record_type.SPEC.api_key, version))
    invariant(max(frame) < 0x80, "record types and versions fit one varint byte")
    return frame + codec.encode(record, version)


def decode_record(value: bytes | memoryview) -> Message:
    """Decode the record in a stored value."""
    if len(value) > 2 and value[0] == _FRAME_VERSION and value[1] < 0x80 and value[2] < 0x80:
        api_key, version, position = value[1], value[2], 3  # true for every record of Kafka 4.3
    else:
        api_key, version, position = _read_frame(memoryview(value))
    record_type = RECORD_TYPES.get(api_key)
    if record_type is None:
        raise LocalError(f"metadata record of unknown type {api_key}: was it written by a newer release?")
    if version not in record_type.SPEC.versions:
        raise LocalError(
            f"{record_type.__name__} in version {version}; this release reads up to "
            f"{record_type.SPEC.versions[-1]}: was it written by a newer release?"
        )
    try:
        return codec.decode(record_type, value, version, start=position)
    except RemoteProtocolError as error:
        raise LocalError(f"{record_type.__name__} does not decode: {error}") from error


def _read_frame(view: memoryview) -> tuple[int, int, int]:
    """Record type, record version and the position of the message."""
    try:
        frame_version, position = read_uvarint(view, 0)
        if frame_version != _FRAME_VERSION:
            raise LocalError(
                f"metadata record in frame version {frame_version}; this release reads version 1"
            )
        api_key, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
    except (IndexError, RemoteProtocolError):
        raise LocalError("metadata record ends inside its frame") from None
    return api_key, version, position
