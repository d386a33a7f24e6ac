"""The entries of a Produce request: which belong to transactions, which of several for one partition is used."""

from __future__ import annotations

from struct import Struct
from typing import Final

from ottla.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, TRANSACTIONAL_MASK
from ottla.records.validation import check_format
from ottla.wire.produce import ProduceRequest, TopicRecords

VALID_ACKS: Final = (-1, 0, 1)
# Batch length, magic and attributes of a batch header.
_HEAD: Final = Struct(">8xi4xb4xh")
_LENGTH_PLAUSIBLE: Final = HEADER_SIZE - LOG_OVERHEAD

TopicEntries = tuple[bytes, dict[int, memoryview | None]]
"""The key of a topic, and the records of its partitions."""


def is_transactional(records: memoryview) -> bool:
    """Return whether the data begin with a complete batch of a transaction."""
    if len(records) < HEADER_SIZE:
        return False
    length, magic, attributes = _HEAD.unpack_from(records)
    complete = magic == MAGIC and length <= len(records) - LOG_OVERHEAD
    return bool(complete and attributes & TRANSACTIONAL_MASK)


def has_transactional(topics: list[TopicRecords]) -> bool:
    """Return whether a batch of the request belongs to a transaction.

    Raise BatchRefused for data that begin with an unknown format. Kafka checks this before topics, acks and the
    transactional id, entry by entry up to the first transactional batch, and refuses the whole request.
    """
    for _, entries in topics:
        for _, records in entries:
            if records is None:
                continue
            if len(records) >= HEADER_SIZE:
                length, magic, attributes = _HEAD.unpack_from(records)
                if magic == MAGIC and length >= _LENGTH_PLAUSIBLE and not attributes & TRANSACTIONAL_MASK:
                    continue
            check_format(records)
            if is_transactional(records):
                return True
    return False


def last_entries(request: ProduceRequest) -> list[TopicEntries]:
    """Return topics and partitions in the order of their first entries, with the records of their last entries."""
    merged: dict[bytes, dict[int, memoryview | None]] = {}
    for key, entries in request.topics:
        if entries:
            merged.setdefault(key, {}).update(entries)
    return list(merged.items())
