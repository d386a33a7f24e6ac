"""Control records of the quorum: leader changes, voters, and the frame of a snapshot.

Layout: the key is version (int16, 0) and type (int16); the value is the message of that type in version 0,
whose first field repeats the version. All records of a control batch are control records.

    2 leader change   the leader of the epoch; the first record of every epoch
    3 snapshot header, 4 snapshot footer   first and last record of a snapshot; both are required
    5 kraft version   1 if the voters are in the log, 0 if the configuration of every node lists them
    6 voters          the voters, with directory ids and addresses
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.records.batch import BatchHeader, Buffer, CorruptBatch
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import ControlType, control_key, control_type
from ottla.records.record import iter_records
from ottla.wire import codec
from ottla.wire.messages.control import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from ottla.wire.schema import Message

_VERSION: Final = 0

_TYPES: Final[dict[type[Message], ControlType]] = {
    LeaderChangeMessage: ControlType.LEADER_CHANGE,
    SnapshotHeaderRecord: ControlType.SNAPSHOT_HEADER,
    SnapshotFooterRecord: ControlType.SNAPSHOT_FOOTER,
    KRaftVersionRecord: ControlType.KRAFT_VERSION,
    VotersRecord: ControlType.KRAFT_VOTERS,
}
_CLASSES: Final = {number: cls for cls, number in _TYPES.items()}


def control_batch(messages: Sequence[Message], *, base_offset: int, epoch: int, now_ms: int) -> bytes:
    """Encode one batch of control records."""
    records = [
        NewRecord(control_key(_TYPES[type(message)]), codec.encode(message, _VERSION), (), now_ms)
        for message in messages
    ]
    return build_batch(records, base_offset=base_offset, leader_epoch=epoch, control=True)


def read_control_batch(header: BatchHeader, batch: Buffer) -> Iterator[Message]:
    """Decode the messages of a control batch; other control types are skipped."""
    return (message for _, message in _controls(header, batch))


def voter_records(header: BatchHeader, batch: Buffer) -> list[tuple[int, Message]]:
    """The records of kraft.version and voters in a control batch, with their offsets."""
    kinds = (KRaftVersionRecord, VotersRecord)
    return [each for each in _controls(header, batch) if isinstance(each[1], kinds)]


def _controls(header: BatchHeader, batch: Buffer) -> Iterator[tuple[int, Message]]:
    for record in iter_records(batch, header):
        offset = header.base_offset + record.offset_delta
        try:
            kind = control_type(record.key)
        except CorruptBatch as error:
            raise LocalError(f"control record at offset {offset} is malformed: {error}") from error
        if record.value is None:
            raise LocalError(f"control record at offset {offset} is malformed: it has no value")
        cls = None if kind is None else _CLASSES.get(kind)
        if cls is None:
            continue
        # The value begins with its version; a leader change in version 1 names directories too.
        version = int.from_bytes(record.value[:2], "big", signed=True)
        try:
            yield offset, codec.decode(cls, record.value, min(version, cls.SPEC.versions[-1]))
        except RemoteProtocolError as error:
            raise LocalError(f"{cls.__name__} at offset {header.base_offset}: {error}") from error
