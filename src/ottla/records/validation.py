"""The checks and changes that a leader applies to a produced batch before it is appended.

Results are those of Apache Kafka 4.3: the same error code for the same bytes, the same order of checks, and
the same bytes stored. Cost: one kernel call for header, CRC and record walk; a packed batch is unpacked
besides (bounded), only to look at it. Producer state (duplicates, order, fencing), offsets and segment size
are checked by the log. Pure: the caller passes the time.

What may change in a batch that is accepted:
- a wrong max timestamp, and with it the CRC; a client's log-append-time bit is cleared
- on a LogAppendTime topic the attribute bit and the max timestamp, never base timestamp and deltas
- on a topic with its own `compression.type` the whole compression (`records.conversion`)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.records._reference import check_request, frame, scan, wrap_long
from ottla.records.batch import (
    CODEC_MASK,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    RECORDS_OFFSET,
    TIMESTAMP_MAX,
    TIMESTAMP_TYPE_MASK,
    BatchHeader,
    Buffer,
    TimestampType,
    header_of,
    read_header,
    set_max_timestamp,
)
from ottla.records.compression import (
    CODEC_NAMES,
    DEFAULT_LEVELS,
    Codec,
    DecompressedTooLarge,
    DecompressionFailed,
    decompress,
)
from ottla.records.conversion import repack
from ottla.records.kernel import check_batch, walk
from ottla.records.record import DECOMPRESSED_BYTES_MAX
from ottla.records.verdict import Verdict

ZSTD_SINCE_VERSION: Final = 7
"""The first Produce version whose clients may send zstd."""

_UNUSUAL: Final = CODEC_MASK | TIMESTAMP_TYPE_MASK

_REFUSALS: Final[dict[int, tuple[ErrorCode, str]]] = {
    Verdict.NO_BATCH: (ErrorCode.INVALID_RECORD, "there is no whole record batch in the data"),
    Verdict.LENGTH_TOO_SMALL: (ErrorCode.CORRUPT_MESSAGE, "the batch length is too small for any batch"),
    Verdict.MAGIC_UNKNOWN: (ErrorCode.CORRUPT_MESSAGE, "the batch has an unknown format (magic)"),
    Verdict.MAGIC_OLD: (ErrorCode.INVALID_RECORD, "only record batches of format (magic) 2 may be produced"),
    Verdict.ZSTD_TOO_EARLY: (
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"zstd needs Produce version {ZSTD_SINCE_VERSION} or newer",
    ),
    Verdict.SECOND_BATCH: (ErrorCode.INVALID_RECORD, "more than one record batch for a partition"),
    # Kafka trips over a header that ends before the producer id, and only checks sizes after that.
    Verdict.PRODUCER_ID_CUT: (ErrorCode.UNKNOWN_SERVER_ERROR, "the batch ends within its header"),
    Verdict.BASE_OFFSET_NOT_ZERO: (ErrorCode.INVALID_RECORD, "a produced batch must have base offset 0"),
    Verdict.TOO_LARGE: (ErrorCode.MESSAGE_TOO_LARGE, "the batch is larger than max.message.bytes"),
    Verdict.HEADER_CUT: (ErrorCode.CORRUPT_MESSAGE, "the batch is smaller than its own header"),
    Verdict.CRC_WRONG: (ErrorCode.CORRUPT_MESSAGE, "the CRC does not match the batch"),
    Verdict.CODEC_UNKNOWN: (ErrorCode.UNKNOWN_SERVER_ERROR, "the batch names a codec that does not exist"),
    Verdict.OFFSET_RANGE_INVALID: (ErrorCode.INVALID_RECORD, "the last offset delta is negative"),
    Verdict.COUNT_INVALID: (ErrorCode.INVALID_RECORD, "the record count is not positive"),
    Verdict.COUNT_INCONSISTENT: (ErrorCode.INVALID_RECORD, "record count and last offset delta disagree"),
    Verdict.CONTROL_FROM_CLIENT: (ErrorCode.INVALID_RECORD, "control batches are not for clients to write"),
    Verdict.SEQUENCE_INVALID: (
        ErrorCode.INVALID_RECORD,
        "a batch with a producer id needs a sequence number",
    ),
    Verdict.RECORD_LENGTH_UNREADABLE: (ErrorCode.UNKNOWN_SERVER_ERROR, "a record's length is unreadable"),
    Verdict.RECORD_MALFORMED: (ErrorCode.INVALID_RECORD, "a record is malformed"),
    Verdict.RECORDS_LEFT_OVER: (ErrorCode.INVALID_RECORD, "bytes are left over after the last record"),
}


@dataclass(frozen=True, slots=True)
class BatchRules:
    """The settings of a topic that apply to a produced batch; created again when they change."""

    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    gzip_level: int = DEFAULT_LEVELS[Codec.GZIP]
    lz4_level: int = DEFAULT_LEVELS[Codec.LZ4]
    zstd_level: int = DEFAULT_LEVELS[Codec.ZSTD]
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = TIMESTAMP_MAX
    timestamp_after_max_ms: int = 3_600_000
    compacted: bool = False
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    target_codec: Codec | None = field(init=False)
    """The codec in which the topic keeps its batches; None if it keeps the producer's."""
    keeps_plain: bool = field(init=False)
    """A sound uncompressed batch needs no change at all."""

    def __post_init__(self) -> None:
        target = CODEC_NAMES.get(self.compression_type)
        create_time = self.timestamp_type is TimestampType.CREATE_TIME
        object.__setattr__(self, "target_codec", target)
        object.__setattr__(self, "keeps_plain", create_time and target in {None, Codec.NONE})

    def level(self, codec: Codec) -> int | None:
        """The configured level of a codec that has levels."""
        return {Codec.GZIP: self.gzip_level, Codec.LZ4: self.lz4_level, Codec.ZSTD: self.zstd_level}.get(
            codec
        )


class ValidBatch:
    """A batch ready to be stamped and appended.

    `data` is writable and exactly one batch: the producer's own bytes where nothing but the header changed
    (without what followed), or a buffer of its own (`rewritten`). `log_append_time_ms` is -1 unless the topic
    stamps batches.
    """

    __slots__ = ("data", "header", "log_append_time_ms", "rewritten")

    def __init__(
        self,
        data: memoryview,
        header: BatchHeader,
        rewritten: bool = False,
        log_append_time_ms: int = NO_TIMESTAMP,
    ) -> None:
        self.data = data
        self.header = header
        self.rewritten = rewritten
        self.log_append_time_ms = log_append_time_ms


class BatchRefused(ApiError):
    """A batch that is not appended; `record_errors` names the records at fault where single ones are."""

    def __init__(
        self, code: ErrorCode, message: str, record_errors: list[tuple[int, str]] | None = None
    ) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors or []


class _Walked(NamedTuple):
    """What the walk over a batch's records found, in the order in which the kernel returns it."""

    max_timestamp: int
    min_timestamp: int
    keyless: int
    sequential: bool


def check_format(records: memoryview) -> None:
    """Raise BatchRefused if the data begin with a length or a magic that no batch has."""
    verdict, _ = frame(records, 0)
    if verdict in (Verdict.LENGTH_TOO_SMALL, Verdict.MAGIC_UNKNOWN):
        raise BatchRefused(*_REFUSALS[verdict])


def check_one_batch(records: memoryview, *, api_version: int) -> None:
    """Raise BatchRefused if the data are not one batch that the version of the request may contain.

    `validate` includes this. Kafka checks it before the leader, the acks and the transaction.
    """
    verdict, size = frame(records, 0)
    if verdict == Verdict.OK:
        verdict = check_request(records, size, api_version >= ZSTD_SINCE_VERSION)
    if verdict != Verdict.OK:
        raise BatchRefused(*_REFUSALS[verdict])


def validate(records: memoryview, rules: BatchRules, now_ms: int, *, api_version: int) -> ValidBatch:
    """Check the produce data of one partition and make them ready for the log; raises BatchRefused."""
    verdict, fields, max_timestamp, min_timestamp, keyless, sequential = check_batch(
        records, rules.max_message_bytes, api_version >= ZSTD_SINCE_VERSION
    )
    if fields is None:
        raise BatchRefused(*_REFUSALS[verdict])
    header = header_of(fields)
    size = fields[1] + LOG_OVERHEAD
    data = records if len(records) == size else records[:size]
    if data.readonly:
        data = memoryview(bytearray(data))
    if (
        rules.keeps_plain
        and max_timestamp == header.max_timestamp
        and not header.attributes & _UNUSUAL
        and not (keyless and rules.compacted)
        and now_ms - rules.timestamp_before_max_ms <= min_timestamp
        and max_timestamp <= now_ms + rules.timestamp_after_max_ms
    ):
        return ValidBatch(data, header)
    return _validate_unusual(
        data, header, rules, now_ms, _Walked(max_timestamp, min_timestamp, keyless, sequential)
    )


def _validate_unusual(
    data: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int, walked: _Walked
) -> ValidBatch:
    """The same for batches that are packed, need a change, or hold records to be refused."""
    codec = Codec(header.compression)
    target = codec if rules.target_codec is None else rules.target_codec
    section: Buffer = data[RECORDS_OFFSET:]
    if codec is not Codec.NONE:
        section, walked = _unpack(section, header, rules.decompressed_bytes_max, strict=target is not codec)
    if header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        # Readers of such a batch use the max timestamp as the time of every record; so do the checks.
        walked = walked._replace(max_timestamp=header.max_timestamp, min_timestamp=header.max_timestamp)
    _check_records(section, header, rules, now_ms, walked)
    append_time = rules.timestamp_type is TimestampType.LOG_APPEND_TIME
    log_append_time_ms = now_ms if append_time else NO_TIMESTAMP
    max_timestamp = now_ms if append_time else max(walked.max_timestamp, NO_TIMESTAMP)
    if target is not codec:
        repacked = _repack(section, header, rules, walked, target=target, max_timestamp=max_timestamp)
        return ValidBatch(memoryview(repacked), read_header(repacked), True, log_append_time_ms)
    if codec is not Codec.NONE and not walked.sequential:
        raise BatchRefused(
            ErrorCode.UNKNOWN_SERVER_ERROR, "the offsets inside a compressed batch do not count up"
        )
    if header.timestamp_type is not rules.timestamp_type or header.max_timestamp != max_timestamp:
        header = set_max_timestamp(data, header, rules.timestamp_type, max_timestamp)
    return ValidBatch(data, header, False, log_append_time_ms)


def _unpack(packed: Buffer, header: BatchHeader, limit: int, *, strict: bool) -> tuple[Buffer, _Walked]:
    """Unpack a compressed batch's records, within the limit, and walk over them."""
    try:
        section = decompress(header.compression, packed, limit)
    except DecompressionFailed as error:
        raise BatchRefused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    except DecompressedTooLarge as error:
        raise BatchRefused(ErrorCode.MESSAGE_TOO_LARGE, f"the batch {error}") from None
    verdict, *found = walk(
        section, 0, len(section), header.records_count, header.base_timestamp, strict=strict
    )
    if verdict == Verdict.RECORD_LENGTH_UNREADABLE:
        verdict = Verdict.RECORD_MALFORMED
    if verdict != Verdict.OK:
        raise BatchRefused(*_REFUSALS[verdict])
    return section, _Walked._make(found)


def _repack(
    section: Buffer,
    header: BatchHeader,
    rules: BatchRules,
    walked: _Walked,
    *,
    target: Codec,
    max_timestamp: int,
) -> bytearray:
    if walked.min_timestamp < 0 and walked.min_timestamp != NO_TIMESTAMP:
        raise BatchRefused(ErrorCode.UNKNOWN_SERVER_ERROR, "a record's timestamp is negative")
    repacked = repack(
        header,
        section,
        sequential=walked.sequential,
        max_timestamp=max_timestamp,
        codec=target,
        level=rules.level(target),
        timestamp_type=rules.timestamp_type,
    )
    if len(repacked) > rules.max_message_bytes:
        raise BatchRefused(*_REFUSALS[Verdict.TOO_LARGE])
    return repacked


def _check_records(
    section: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int, walked: _Walked
) -> None:
    """Refuse a batch for single records: no key on a compacted topic, times out of the allowed window."""
    client_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    create_time = rules.timestamp_type is TimestampType.CREATE_TIME
    keys_fine = not (walked.keyless and rules.compacted)
    if create_time:
        times_fine = (
            now_ms - rules.timestamp_before_max_ms <= walked.min_timestamp
            and walked.max_timestamp <= now_ms + rules.timestamp_after_max_ms
            and not (client_stamped and walked.max_timestamp == NO_TIMESTAMP)
        )
    else:
        times_fine = not client_stamped
    if not (keys_fine and times_fine):
        _refuse_records(section, header, rules, now_ms)


def _refuse_records(section: Buffer, header: BatchHeader, rules: BatchRules, now_ms: int) -> None:
    """Name every record at fault. Returns only if there is none: the window's ends may lie beyond 64 bits."""
    client_stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    create_time = rules.timestamp_type is TimestampType.CREATE_TIME
    code = ErrorCode.INVALID_RECORD
    errors: list[tuple[int, str]] = []
    records = scan(section, 0, len(section), header.records_count, header.base_timestamp)
    for index, (own_timestamp, has_key) in enumerate(records):
        timestamp = header.max_timestamp if client_stamped else own_timestamp
        if rules.compacted and not has_key:
            errors.append((index, "a record of a compacted topic needs a key"))
        elif create_time and timestamp != NO_TIMESTAMP:
            age_ms = wrap_long(now_ms - timestamp)
            if age_ms > rules.timestamp_before_max_ms or wrap_long(-age_ms) > rules.timestamp_after_max_ms:
                code = ErrorCode.INVALID_TIMESTAMP
                errors.append(
                    (index, f"timestamp {timestamp} lies outside of the window that the topic allows")
                )
        elif client_stamped:
            code = ErrorCode.INVALID_TIMESTAMP
            errors.append((index, "a producer may not set the timestamp type to log append time"))
    if errors:
        raise BatchRefused(code, f"{len(errors)} of {header.records_count} records are refused", errors)
