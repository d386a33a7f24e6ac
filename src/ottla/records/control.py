"""Control batches: the records that brokers write for themselves between those of the producers.

A control record's key is version (i16) and type (i16). What its value holds depends on the type: for the end
of a transaction version (i16) and coordinator epoch (i32), for the quorum's own types a message that the
quorum encodes. Readers use these records but never pass them to applications. Pure.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from ottla.records.batch import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, CorruptBatch
from ottla.records.builder import NewRecord, build_batch


class ControlType(IntEnum):
    """The type of a control record."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class EndTxnMarker(NamedTuple):
    """The end of a producer's transaction in one partition."""

    committed: bool
    coordinator_epoch: int


_KEY = Struct(">hh")
_KEY_VERSION = 0
_END_TXN = Struct(">hi")
_END_TXN_VERSION = 0


def control_key(kind: ControlType) -> bytes:
    """The key of a control record."""
    return _KEY.pack(_KEY_VERSION, kind)


def control_type(key: bytes | None) -> ControlType | None:
    """The type in a control record's key; None for an unknown type, which readers skip."""
    try:
        version, kind = _KEY.unpack_from(key or b"")
    except StructError:
        raise CorruptBatch("the key of a control record is too short") from None
    if version < 0:
        raise CorruptBatch(f"a control record has version {version}")
    return ControlType(kind) if kind in ControlType.__members__.values() else None


def build_control_batch(
    kind: ControlType,
    value: bytes,
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytes:
    """A batch with one control record."""
    return build_batch(
        [NewRecord(control_key(kind), value, timestamp=timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def build_end_txn_batch(
    marker: EndTxnMarker,
    *,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytes:
    """The batch that commits or aborts a producer's transaction in one partition."""
    return build_control_batch(
        ControlType.COMMIT if marker.committed else ControlType.ABORT,
        _END_TXN.pack(_END_TXN_VERSION, marker.coordinator_epoch),
        timestamp=timestamp,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
    )


def read_end_txn(key: bytes | None, value: bytes | None) -> EndTxnMarker | None:
    """The marker in a control record; None if the record is of another type."""
    kind = control_type(key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT):
        return None
    try:
        version, coordinator_epoch = _END_TXN.unpack_from(value or b"")
    except StructError:
        raise CorruptBatch("an end-of-transaction marker is too short") from None
    if version < 0:
        raise CorruptBatch(f"an end-of-transaction marker has version {version}")
    return EndTxnMarker(kind is ControlType.COMMIT, coordinator_epoch)
