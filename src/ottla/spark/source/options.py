"""The options of the source: those of Spark's Kafka connector with their defaults and checks, and additional ones.

Spark passes options case-insensitively; here they are looked up in lower case and named in messages as in the
documentation. An option that begins with `kafka.` is a client setting (`ClientSettings.from_options`), in Java's or
librdkafka's spelling, except settings that would break the source: they are refused, not overridden silently.
Unknown options are ignored, as in Spark's own sources. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientSettings
from ottla.spark.options import NO_TABLE_OPTIONS, Options
from ottla.spark.source.offsets import (
    EARLIEST,
    LATEST,
    AtTime,
    AtTimes,
    Committed,
    Earliest,
    Latest,
    Offsets,
    OffsetSpec,
    Specific,
    parse_assignment,
    parse_offset_spec,
    parse_offsets,
)
from ottla.spark.source.schema import COLUMNS, VALUE_FORMATS, ColumnChoice, parse_columns
from ottla.spark.source.session_zone import OPTION as ZONE_OPTION
from ottla.spark.source.session_zone import zone_of

_STRATEGIES = ("subscribe", "subscribePattern", "assign")
_MAX_DELAY_DEFAULT_MS: Final = 15 * 60_000
_POLL_TIMEOUT_DEFAULT_MS: Final = 120_000
_TIMES_EXAMPLE = '{"topicA":{"0":1000,"1":1000},"topicB":{"0":2000,"1":2000}}'

_REJECTED: Final = {
    "key.deserializer": "keys arrive as binary columns: convert them with DataFrame operations",
    "value.deserializer": "values arrive as binary columns: convert them with DataFrame operations or valueFormat",
}


@dataclass(frozen=True)
class Topics:
    """The selection of partitions: exactly one of the three is given."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True)
class SourceOptions:
    """The parsed options of a read or a stream."""

    settings: ClientSettings
    topics: Topics
    start: OffsetSpec
    end: OffsetSpec
    without_match: Literal["error", "latest"]
    """What a starting timestamp means in a partition without a record at or after it."""
    fail_on_data_loss: bool
    offsets_max: int | None
    offsets_min: int | None
    delay_max_ms: int
    partitions_min: int | None
    records_per_partition_max: int | None
    offset_retries: int
    offset_retry_ms: int
    poll_timeout_ms: int
    columns: tuple[ColumnChoice, ...]
    value_format: str
    value_schema: str | None
    time_zone: str | None
    """The time zone of JSON timestamps without one; None for that of the session."""

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool | None) -> SourceOptions:
        """Parse the options; with `streaming` None, when it is not known yet, what depends on it is not checked."""
        options = Options(given)
        topics = _topics(options)
        settings = ClientSettings.from_options(options.client(_REJECTED))
        start = _offset_spec(options, "starting", Latest() if streaming else Earliest())
        end = _offset_spec(options, "ending", Latest())
        if streaming is not None:
            _check_specs(options, start, end, streaming=streaming)
        if isinstance(start, Committed) and not settings.group_id:
            raise LocalError("startingOffsets=committed needs a consumer group: set kafka.group.id")
        limits = _limits(options) if streaming else _Limits()
        value_format = options.choice("valueFormat", VALUE_FORMATS, "binary")
        value_schema = options.text("valueSchema")
        if value_format in {"json", "avro"} and not value_schema:
            raise LocalError(f"valueFormat={value_format} needs the schema of the values: set valueSchema")
        time_zone = options.text(ZONE_OPTION)
        if time_zone is not None:
            zone_of(time_zone)
        strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
        return cls(
            settings=settings,
            topics=topics,
            start=start,
            end=end,
            without_match="latest" if strategy == "latest" else "error",
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            offsets_max=limits.offsets_max,
            offsets_min=limits.offsets_min,
            delay_max_ms=limits.delay_max_ms,
            partitions_min=options.positive("minPartitions"),
            records_per_partition_max=options.positive("maxRecordsPerPartition"),
            offset_retries=options.whole("fetchOffset.numRetries", 3),
            offset_retry_ms=options.whole("fetchOffset.retryIntervalMs", 10),
            poll_timeout_ms=options.whole("kafkaConsumer.pollTimeoutMs", _POLL_TIMEOUT_DEFAULT_MS),
            columns=_columns(options),
            value_format=value_format,
            value_schema=value_schema,
            time_zone=time_zone,
        )


@dataclass(frozen=True)
class _Limits:
    """The limits of the batches of a stream; a batch query ignores them."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max_ms: int = _MAX_DELAY_DEFAULT_MS


def _limits(options: Options) -> _Limits:
    most, least = options.positive("maxOffsetsPerTrigger"), options.positive("minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise LocalError(
            f"minOffsetsPerTrigger ({least}) must not be greater than maxOffsetsPerTrigger ({most})"
        )
    return _Limits(most, least, options.duration_ms("maxTriggerDelay", _MAX_DELAY_DEFAULT_MS))


def _columns(options: Options) -> tuple[ColumnChoice, ...]:
    with_headers = options.flag("includeHeaders", default=False)
    text = options.text("columns")
    if text is not None:
        return parse_columns(text)
    return tuple(ColumnChoice(name, name) for name in COLUMNS if with_headers or name != "headers")


def _topics(options: Options) -> Topics:
    given = [name for name in _STRATEGIES if options.text(name) is not None]
    if not given:
        raise LocalError(f"one of the options {', '.join(_STRATEGIES)} must be given{NO_TABLE_OPTIONS}")
    if len(given) > 1:
        raise LocalError(
            f"only one of the options {', '.join(_STRATEGIES)} may be given, got {', '.join(given)}"
        )
    name = given[0]
    text = (options.text(name) or "").strip()
    if name == "assign":
        return Topics(assigned=tuple(parse_assignment(text)))
    if name == "subscribe":
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not names:
            raise LocalError("option subscribe is empty")
        return Topics(names=names)
    try:
        re.compile(text)
    except re.error as error:
        raise LocalError(f"option subscribePattern: invalid regular expression {text!r}: {error}") from error
    if not text:
        raise LocalError("option subscribePattern is empty")
    return Topics(pattern=text)


def _offset_spec(options: Options, which: Literal["starting", "ending"], default: OffsetSpec) -> OffsetSpec:
    """A timestamp for all partitions takes precedence over timestamps by partition, and both over offsets."""
    name = f"{which}Timestamp"
    if options.text(name) is not None:
        timestamp = options.whole(name, 0)
        if timestamp < EARLIEST:
            raise LocalError(
                f"option {name} must be a time, {LATEST} (latest) or {EARLIEST} (earliest), got {timestamp}"
            )
        return AtTime(timestamp)
    name = f"{which}OffsetsByTimestamp"
    if (text := options.text(name)) is not None:
        return AtTimes(parse_offsets(name, text, _TIMES_EXAMPLE))
    name = f"{which}Offsets"
    if (text := options.text(name)) is not None:
        return parse_offset_spec(name, text)
    return default


def _check_specs(options: Options, start: OffsetSpec, end: OffsetSpec, *, streaming: bool) -> None:
    if streaming:
        for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
            if options.text(name) is not None:
                raise LocalError(f"option {name} is not valid in streaming queries: a stream has no end")
        return
    _check_batch_spec("starting", start, rejected=LATEST, name="latest", is_empty=isinstance(start, Latest))
    _check_batch_spec("ending", end, rejected=EARLIEST, name="earliest", is_empty=isinstance(end, Earliest))
    if isinstance(end, Committed):
        raise LocalError("endingOffsets cannot be committed")
    match start, end:
        case Specific(first), Specific(last):
            check_order(first, last, "offset")
        case AtTimes(first), AtTimes(last):
            check_order(first, last, "timestamp")
        case AtTime(first_ms), AtTime(last_ms) if first_ms > last_ms >= 0:
            raise LocalError(f"startingTimestamp {first_ms} is after endingTimestamp {last_ms}")


def check_order(start: Offsets, end: Offsets, kind: str) -> None:
    """Raise `LocalError` if a start is after its end; earliest and latest are not compared."""
    for partition in sorted(set(start) & set(end)):
        if start[partition] > end[partition] >= 0:
            raise LocalError(
                f"the starting {kind} {start[partition]} of {partition} is after the ending {kind} {end[partition]}"
            )


def _check_batch_spec(which: str, spec: OffsetSpec, *, rejected: int, name: str, is_empty: bool) -> None:
    if is_empty:
        raise LocalError(f"{which}Offsets cannot be {name} in batch queries: nothing would be read")
    if isinstance(spec, Specific):
        for partition, offset in spec.offsets.items():
            if offset == rejected:
                raise LocalError(
                    f"{which}Offsets of {partition} cannot be {name} ({rejected}) in batch queries"
                )
