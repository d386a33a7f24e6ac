"""Options: defaults, meanings, refusals."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.spark.source.offsets import AtTime, AtTimes, Earliest, Latest, Specific
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.schema import ColumnChoice

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a, b,a"}


def parse(streaming: bool | None = True, **more: str) -> SourceOptions:
    given = {**BASE, **{name.replace("__", "."): value for name, value in more.items()}}
    return SourceOptions.parse(given, streaming=streaming)


def test_defaults() -> None:
    options = parse()
    assert options.topics.names == ("a", "b")
    assert isinstance(options.start, Latest)
    assert isinstance(parse(streaming=False).start, Earliest)
    assert isinstance(parse(streaming=False).end, Latest)
    assert options.fail_on_data_loss
    assert options.delay_max_ms == 900_000
    assert not options.settings.read_committed
    assert [choice.name for choice in options.columns] == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
    ]


def test_names_have_no_case() -> None:
    options = parse(STARTINGOFFSETS="Earliest", includeheaders="TRUE", FailOnDataLoss="False")
    assert isinstance(options.start, Earliest)
    assert options.columns[-1] == ColumnChoice("headers", "headers")
    assert not options.fail_on_data_loss


def test_timestamps_go_before_offsets() -> None:
    both = {"startingOffsetsByTimestamp": '{"a":{"0":7}}', "startingOffsets": "earliest"}
    assert parse(**both).start == AtTimes({TopicPartition("a", 0): 7})
    assert parse(**both, startingTimestamp="5").start == AtTime(5)
    assert parse(startingOffsets='{"a":{"0":7}}').start == Specific({TopicPartition("a", 0): 7})


def test_the_isolation_level_is_the_clients() -> None:
    assert parse(kafka__isolation__level="read_committed").settings.read_committed


@pytest.mark.parametrize(
    ("text", "ms"), [("15m", 900_000), ("30s", 30_000), ("500ms", 500), ("70", 70), ("2h", 7_200_000)]
)
def test_spans(text: str, ms: int) -> None:
    assert parse(maxTriggerDelay=text).delay_max_ms == ms


@pytest.mark.parametrize(
    ("streaming", "more", "message"),
    [
        (True, {"kafka.bootstrap.servers": " "}, "bootstrap.servers must be given"),
        (True, {"assign": '{"a":[0]}'}, "only one of"),
        (True, {"subscribe": " , "}, "subscribe is empty"),
        (True, {"kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        (True, {"kafka.Enable.Auto.Commit": "false"}, "enable.auto.commit is not supported"),
        (True, {"kafka.interceptor.classes": "x"}, "interceptor.classes is not supported"),
        (True, {"kafka.key.deserializer": "x"}, "key.deserializer is not supported"),
        (True, {"kafka.value.deserializer": "x"}, "value.deserializer is not supported"),
        (True, {"endingOffsets": "latest"}, "endingOffsets is not valid in streaming"),
        (True, {"endingOffsetsByTimestamp": "{}"}, "endingOffsetsByTimestamp is not valid in streaming"),
        (True, {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "must not be greater"),
        (True, {"maxOffsetsPerTrigger": "0"}, "must be positive"),
        (True, {"maxOffsetsPerTrigger": "many"}, "whole number"),
        (True, {"maxTriggerDelay": "soon"}, "duration such as"),
        (True, {"failOnDataLoss": "maybe"}, "true or false"),
        (True, {"startingOffsetsByTimestampStrategy": "guess"}, "error, latest"),
        (True, {"startingTimestamp": "-3"}, r"a time, -1 \(latest\) or -2 \(earliest\), got -3"),
        (True, {"startingOffsetsByTimestamp": '{"a":{"0":-3}}'}, "invalid offset -3 of a-0"),
        (None, {"startingOffsets": '{"a":{"0":-3}}'}, "invalid offset -3 of a-0"),
        (True, {"startingOffsets": "committed"}, "kafka.group.id"),
        (True, {"valueFormat": "xml"}, "valueFormat must be one of"),
        (True, {"valueFormat": "json"}, "needs the schema"),
        (True, {"columns": "value, colour"}, "colour"),
        (True, {"columns": " "}, "columns is empty"),
        (True, {"columns": "value, value as v"}, "twice"),
        (True, {"columns": "key as v, value as V"}, "twice"),
        (False, {"startingOffsets": "latest"}, "cannot be latest"),
        (False, {"startingOffsets": '{"a":{"0":-1}}'}, "cannot be latest"),
        (False, {"endingOffsets": "earliest"}, "cannot be earliest"),
        (False, {"endingOffsets": '{"a":{"0":-2}}'}, "cannot be earliest"),
        (False, {"endingOffsets": "committed"}, "cannot be committed"),
        (
            False,
            {"startingOffsets": '{"a":{"0":5,"1":9}}', "endingOffsets": '{"a":{"0":-1,"1":8}}'},
            "starting offset 9 of a-1 is after the ending offset 8",
        ),
        (
            False,
            {
                "startingOffsetsByTimestamp": '{"a":{"0":1001}}',
                "endingOffsetsByTimestamp": '{"a":{"0":1000}}',
            },
            "starting timestamp 1001 of a-0 is after",
        ),
        (
            False,
            {"startingTimestamp": "1001", "endingTimestamp": "1000"},
            "startingTimestamp 1001 is after",
        ),
    ],
)
def test_refusals(streaming: bool | None, more: dict[str, str], message: str) -> None:
    with pytest.raises(LocalError, match=message):
        SourceOptions.parse({**BASE, **more}, streaming=streaming)


def test_timestamps_that_stand_for_the_ends() -> None:
    assert parse(startingTimestamp="-2").start == AtTime(-2)
    whole = parse(streaming=False, startingTimestamp="1000", endingTimestamp="-1")
    assert (whole.start, whole.end) == (AtTime(1000), AtTime(-1)), "no end that lies before its start"


@pytest.mark.parametrize("streaming", [False, None])
def test_limits_of_streams_mean_nothing_in_a_batch(streaming: bool | None) -> None:
    junk = {"maxOffsetsPerTrigger": "junk", "minOffsetsPerTrigger": "-1", "maxTriggerDelay": "xx"}
    options = parse(streaming=streaming, **junk)
    assert (options.offsets_max, options.offsets_min) == (None, None)


def test_options_of_tables_do_not_reach_the_source() -> None:
    """The error names the missing option and suggests a temporary view."""
    for given in ({"kafka.bootstrap.servers": "x"}, {"subscribe": "a"}):
        with pytest.raises(LocalError, match=r"must be given; .* CREATE TEMPORARY VIEW"):
            SourceOptions.parse(given, streaming=False)


def test_a_pattern_must_be_one() -> None:
    server = {"kafka.bootstrap.servers": "localhost"}
    with pytest.raises(LocalError, match="one of the options"):
        SourceOptions.parse(server, streaming=True)
    for wrong, message in (("(", "invalid regular expression"), ("", "is empty")):
        with pytest.raises(LocalError, match=message):
            SourceOptions.parse({**server, "subscribePattern": wrong}, streaming=True)
