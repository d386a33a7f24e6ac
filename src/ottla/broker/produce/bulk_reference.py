"""The scan of similar Produce requests for a bulk append, in plain Python: the specification of the compiled `_bulk`.

The *shape* of a request is the part that the requests of one producer to one partition have in common: API key and
version, then (after the correlation id, which differs) everything up to the length of the batch. A scan takes
consecutive frames of one shape with plain batches that need only an offset: uncompressed, without producer id, valid
to the last record, and within the `AppendLimits` of the log. It ends at the first other frame, which the normal path
handles; so nothing is refused here.

`scan_bulk` concatenates the batches with their offsets and leader epoch, creates the responses from a template by
setting correlation id and base offset, and computes the entries of the sparse indexes.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.base.errors import RemoteProtocolError
from ottla.base.varint import read_uvarint
from ottla.records import _reference
from ottla.records.batch import LOG_OVERHEAD
from ottla.storage.log.bulk_append import AppendLimits, IndexEntry

Scanned = tuple[int, int, bytearray, int, int, int, list[IndexEntry], int, bytearray]
"""position after the last frame, number of requests, the six fields of `BulkAppend`, responses"""

_SIZE: Final = Struct(">i")
_STAMP: Final = Struct(">qii")
_OFFSET: Final = Struct(">q")
_LENGTH_BYTES_MAX: Final = 4


def scan_bulk(
    view: memoryview,
    position: int,
    end: int,
    shape: bytes,
    flexible: bool,
    template: bytes,
    offset_at: int,
    limits: AppendLimits,
) -> Scanned | None:
    """Scan the frames from `position` on; None if the first one does not fit."""
    (
        next_offset,
        last_offset_max,
        bytes_left,
        leader_epoch,
        earliest,
        latest,
        since_entry,
        interval,
        limit,
        keys,
    ) = limits
    staged, responses = bytearray(), bytearray()
    entries: list[IndexEntry] = []
    requests, max_timestamp, max_timestamp_offset = 0, -1, -1
    while end - position >= 4:
        (size,) = _SIZE.unpack_from(view, position)
        if size < 8 or size > end - position - 4:
            break
        frame = view[position + 4 : position + 4 + size]
        batch = _find_batch(frame, shape, flexible)
        if batch is None or len(batch) > bytes_left - len(staged):
            break
        stamp = _plain_timestamp(batch, earliest, latest, limit, keys)
        if stamp is None:
            break
        count = int.from_bytes(batch[57:61], "big")
        if next_offset + count - 1 > last_offset_max:
            break
        filled = len(staged)
        staged += _STAMP.pack(next_offset, len(batch) - LOG_OVERHEAD, leader_epoch) + batch[16:]
        response = bytearray(template)
        response[4:8] = frame[4:8]
        _OFFSET.pack_into(response, offset_at, next_offset)
        responses += response
        next_offset += count
        if stamp > max_timestamp:
            max_timestamp, max_timestamp_offset = stamp, next_offset - 1
        if since_entry > interval:
            entries.append((next_offset - 1, filled, max_timestamp, max_timestamp_offset))
            since_entry = 0
        since_entry += len(batch)
        requests += 1
        position += 4 + size
    if not requests:
        return None
    return (
        position, requests, staged, next_offset, max_timestamp, max_timestamp_offset, entries, since_entry, responses,
    )  # fmt: skip


def _find_batch(frame: memoryview, shape: bytes, flexible: bool) -> memoryview | None:
    """Return the batch of a frame of this shape; None if the frame has another shape."""
    position = len(shape) + 4
    if len(frame) < position + 5 or frame[:4] != shape[:4] or frame[8:position] != shape[4:]:
        return None
    if not flexible:
        (length,) = _SIZE.unpack_from(frame, position)
        batch = frame[position + 4 :]
        return batch if len(batch) == length else None
    try:
        length, after = read_uvarint(frame, position)
    except RemoteProtocolError:
        return None
    if after - position > _LENGTH_BYTES_MAX or not length:
        return None
    if len(frame) - after != length + 2 or any(frame[-3:]):
        return None
    return frame[after:-3]


def _plain_timestamp(
    batch: memoryview, earliest: int, latest: int, max_message_bytes: int, keys_needed: bool
) -> int | None:
    """Return the max timestamp of a batch that needs only an offset; None for any other."""
    _, fields, max_timestamp, min_timestamp, keyless, _ = _reference.check_batch(
        batch, max_message_bytes, True
    )
    if fields is None or fields[1] + LOG_OVERHEAD != len(batch):
        return None
    attributes, producer_id, base_sequence = fields[5], fields[9], fields[11]
    if attributes or producer_id != -1 or base_sequence != -1:
        return None
    if max_timestamp != fields[8] or max_timestamp > latest or min_timestamp < earliest:
        return None
    return None if keyless and keys_needed else max_timestamp
