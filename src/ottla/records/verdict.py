"""What the structural check of a produced batch can find; the compiled kernel returns these numbers.

The order is that of the checks, which is Kafka's: if a batch has two errors, the first one is reported.
"""

from __future__ import annotations

from enum import IntEnum


class Verdict(IntEnum):
    """0 is sound; everything else is a reason to refuse."""

    OK = 0
    NO_BATCH = 1
    LENGTH_TOO_SMALL = 2
    MAGIC_UNKNOWN = 3
    MAGIC_OLD = 4
    ZSTD_TOO_EARLY = 5
    SECOND_BATCH = 6
    PRODUCER_ID_CUT = 7
    BASE_OFFSET_NOT_ZERO = 8
    TOO_LARGE = 9
    HEADER_CUT = 10
    CRC_WRONG = 11
    CODEC_UNKNOWN = 12
    OFFSET_RANGE_INVALID = 13
    COUNT_INVALID = 14
    COUNT_INCONSISTENT = 15
    CONTROL_FROM_CLIENT = 16
    SEQUENCE_INVALID = 17
    RECORD_LENGTH_UNREADABLE = 18
    RECORD_MALFORMED = 19
    RECORDS_LEFT_OVER = 20
