"""What the structural check of a produced batch can find; the compiled kernel returns these numbers.

The order is the order of the checks, which is Kafka's: where a batch is wrong in two ways, the first one answers.
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
    BASE_OFFSET_NOT_ZERO = 7
    TOO_LARGE = 8
    HEADER_CUT = 9
    CRC_WRONG = 10
    CODEC_UNKNOWN = 11
    OFFSET_RANGE_INVALID = 12
    COUNT_INVALID = 13
    COUNT_INCONSISTENT = 14
    CONTROL_FROM_CLIENT = 15
    SEQUENCE_INVALID = 16
    RECORD_LENGTH_UNREADABLE = 17
    RECORD_MALFORMED = 18
    RECORDS_LEFT_OVER = 19
