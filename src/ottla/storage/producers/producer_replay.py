"""The effect of a batch on producer state: whether it may be appended, and what it changes once it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import structlog

from ottla.base.files import Buffer, File
from ottla.records.batch import BatchHeader, CorruptBatch
from ottla.records.control import EndTxnMarker, read_end_txn
from ottla.records.record import iter_records
from ottla.storage.log.segment import Segment
from ottla.storage.producers.producer_snapshot import ProducerSnapshots
from ottla.storage.producers.producer_state import CompletedTxn, Duplicate, ProducerState, Verification
from ottla.storage.recovery.batch_scan import walk

_logger = structlog.get_logger(__name__)
_WINDOW_BYTES: Final = 1024 * 1024


def read_marker(batch: Buffer, header: BatchHeader) -> EndTxnMarker | None:
    """The transaction marker in a control batch; None if it holds another kind of control record."""
    record = next(iter_records(batch, header), None)
    return None if record is None else read_end_txn(record.key, record.value)


def check_producer(
    state: ProducerState,
    batch: Buffer,
    header: BatchHeader,
    epoch_per_transaction: bool,
    verification: Verification | None,
) -> tuple[EndTxnMarker | None, Duplicate | None]:
    """Whether a leader may append a batch of a producer with an id; raises ApiError if not.

    Returns the marker that a control batch holds, or the append of which the batch is a retry.
    """
    if not header.is_control:
        return None, state.check(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.last_sequence,
            transactional=header.is_transactional,
            epoch_per_transaction=epoch_per_transaction,
            verification=verification,
        )
    marker = read_marker(batch, header)
    if marker is not None:
        state.check_marker(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            epoch_per_transaction=epoch_per_transaction,
        )
    return marker, None


def replay(
    state: ProducerState, header: BatchHeader, base_offset: int, marker: EndTxnMarker | None
) -> CompletedTxn | None:
    """Record a batch of a producer with an id.

    `marker` is what a control batch holds. Returns the ended transaction.
    """
    if not header.is_control:
        state.append_batch(
            header.producer_id,
            header.producer_epoch,
            header.last_sequence,
            base_offset=base_offset,
            last_offset=base_offset + header.last_offset_delta,
            timestamp=header.max_timestamp,
            transactional=header.is_transactional,
        )
        return None
    if marker is None:
        return None
    return state.append_marker(
        header.producer_id,
        header.producer_epoch,
        marker.coordinator_epoch,
        offset=base_offset,
        timestamp=header.max_timestamp,
        aborted=not marker.committed,
    )


def replay_stored(
    state: ProducerState, header: BatchHeader, file: File, position: int
) -> CompletedTxn | None:
    """Replay a batch of a file; its body is read only if it is a control batch."""
    if header.producer_id < 0:
        return None
    marker = None
    if header.is_control:
        try:
            marker = read_marker(file.pread(header.size_in_bytes, position), header)
        except CorruptBatch as error:
            _logger.warning("a control batch is unreadable", offset=header.base_offset, error=str(error))
    return replay(state, header, header.base_offset, marker)


def load_producers(
    state: ProducerState,
    snapshots: ProducerSnapshots,
    segments: Sequence[Segment],
    end_offset: int,
    now_ms: int,
) -> None:
    """Load the newest snapshot between the first record on the disk and `end_offset`, both included.

    What producers wrote below the log start still counts as long as it is known: a retry of it must not be
    written again. A snapshot has only the last batch of each producer; the ones before it, which a client may
    retry too, are read from the end of the log.
    """
    first_offset = segments[0].base_offset
    snapshots.load_newest(state, first_offset - 1, end_offset, now_ms)
    state.end_offset = max(state.end_offset, first_offset)
    if len(state):
        recent = ProducerState(state.expiration_ms)
        for segment, start, end in reversed(list(_last_stretches(segments, state.end_offset))):
            for _, header in walk(segment.file, start, end):
                if header.producer_id >= 0 and not header.is_control:
                    replay(recent, header, header.base_offset, None)
        state.learn_windows(recent)


def _last_stretches(segments: Sequence[Segment], end_offset: int) -> Iterator[tuple[Segment, int, int]]:
    """The last `_WINDOW_BYTES` before `end_offset`, the last segment first: each with its first and last position."""
    left = _WINDOW_BYTES
    for segment in reversed(segments):
        if segment.base_offset >= end_offset:
            continue
        end = segment.written_size
        if left == _WINDOW_BYTES:
            last = segment.find(end_offset - 1, end)
            if last is None or last.last_offset >= end_offset:
                return
            end = last.position + last.size
        entry = segment.offset_index.first_at_or_after(max(1, end - left)) if end > left else None
        start = entry[1] if entry else 0
        yield segment, start, end
        left -= end - start
        if start or left <= 0:
            return


def replay_segments(state: ProducerState, segments: Iterable[Segment], end_offset: int) -> None:
    """Bring the state from its end offset up to `end_offset`, from the headers of the batches between."""
    for segment in segments:
        if segment.base_offset >= end_offset:
            break
        found = segment.find(state.end_offset, segment.written_size)
        if found is None:
            continue
        for position, header in walk(segment.file, found.position, segment.written_size):
            if header.base_offset >= end_offset:
                break
            replay_stored(state, header, segment.file, position)
    state.end_offset = end_offset
