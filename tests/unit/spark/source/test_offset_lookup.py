"""Which partitions there are, and where places lie in them."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.spark.source.offset_lookup import OffsetLookup
from ottla.spark.source.options import SourceOptions
from tests.support.fake_cluster import FakeCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class _Clock:
    def now_ms(self) -> int:
        return 10_000

    def monotonic(self) -> float:
        return 0.0


def make(cluster: FakeCluster, streaming: bool = True, **more: str) -> tuple[OffsetLookup, SourceOptions]:
    given = {
        "kafka.bootstrap.servers": "x",
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    options = SourceOptions.parse(given, streaming=streaming)
    return OffsetLookup(cluster, options, _Clock()), options  # type: ignore[arg-type]


def resolve(cluster: FakeCluster, **more: str) -> dict[TopicPartition, int]:
    positions, options = make(cluster, subscribe="a", **more)
    return positions.resolve(options.start, positions.required(), starting=True)


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster(a=2, b=1)
    made.logs[A0].append(10, first_time=9_000)
    made.logs[A0].start = 3
    made.logs[A1].append(4, first_time=5_000)
    return made


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ({"subscribe": "a"}, [A0, A1]),
        ({"subscribe": "b,a"}, [A0, A1, B0]),
        ({"subscribePattern": "[ab]"}, [A0, A1, B0]),
        ({"subscribePattern": "^a|c"}, [A0, A1]),
        ({"assign": '{"a":[1]}'}, [A1]),
    ],
)
def test_choices(cluster: FakeCluster, choice: dict[str, str], found: list[Any]) -> None:
    assert make(cluster, **choice)[0].required() == found


def test_a_pattern_is_found_anywhere_in_the_name() -> None:
    """As by Spark's own connector."""
    cluster = FakeCluster(orders=1, reorder=1, other=1)

    def topics(pattern: str) -> list[str]:
        return [partition.topic for partition in make(cluster, subscribePattern=pattern)[0].partitions()]

    assert topics("order") == ["orders", "reorder"]
    assert topics("^order") == ["orders"]
    assert topics("^orders$|^other$") == ["orders", "other"]


def test_a_pattern_leaves_internal_topics_out(cluster: FakeCluster) -> None:
    cluster.internal = {"b"}
    assert make(cluster, subscribePattern=".*")[0].partitions() == [A0, A1]


def test_what_is_named_must_be_there(cluster: FakeCluster) -> None:
    for choice, missing in (
        ({"subscribe": "a,c"}, "^c: the topic or partition"),
        ({"assign": '{"a":[0,7]}'}, "^a-7: the topic or partition"),
    ):
        with pytest.raises(LocalError, match=missing):
            make(cluster, **choice)[0].required()


def test_places(cluster: FakeCluster) -> None:
    assert resolve(cluster, startingOffsets="earliest") == {A0: 3, A1: 0}
    assert resolve(cluster, startingOffsets="latest") == {A0: 10, A1: 4}
    assert resolve(cluster, startingOffsets='{"a":{"0":5,"1":-1}}') == {A0: 5, A1: 4}
    assert resolve(cluster, startingOffsets='{"a":{"0":-2,"1":2}}') == {A0: 3, A1: 2}
    assert resolve(cluster, startingOffsets="-3") == {A0: 7, A1: 1}
    assert resolve(cluster, startingOffsets="-9") == {A0: 3, A1: 0}
    assert resolve(cluster, startingTimestamp="5001") == {A0: 3, A1: 1}
    assert resolve(cluster, startingOffsetsByTimestamp='{"a":{"0":9005,"1":5003}}') == {A0: 5, A1: 3}


def test_timestamps_that_stand_for_the_ends(cluster: FakeCluster) -> None:
    assert resolve(cluster, startingTimestamp="-1") == {A0: 10, A1: 4}
    assert resolve(cluster, startingTimestamp="-2") == {A0: 3, A1: 0}
    assert resolve(cluster, startingOffsetsByTimestamp='{"a":{"0":-1,"1":-2}}') == {A0: 10, A1: 0}


def test_an_end_may_lie_before_the_end(cluster: FakeCluster) -> None:
    def end(**more: str) -> dict[TopicPartition, int]:
        positions, options = make(cluster, streaming=False, subscribe="a", **more)
        return positions.resolve(options.end, positions.required(), starting=False)

    assert end(endingOffsets="-3") == {A0: 7, A1: 1}
    assert end(endingOffsets="-995 milliseconds") == {A0: 5, A1: 4}
    assert end(endingTimestamp="-1") == {A0: 10, A1: 4}


def test_a_span_back_counts_from_now(cluster: FakeCluster) -> None:
    assert resolve(cluster, startingOffsets="-995 milliseconds") == {A0: 5, A1: 4}


def test_committed_starts_at_the_offsets_of_the_group(cluster: FakeCluster) -> None:
    cluster.groups["g"] = {A0: 7}
    assert resolve(cluster, startingOffsets="committed", kafka__group__id="g") == {A0: 7, A1: 0}
    cluster.groups["g"] = {A0: 1, A1: 2}
    assert resolve(cluster, startingOffsets="committed", kafka__group__id="g") == {A0: 3, A1: 2}


def test_offsets_must_name_each_partition(cluster: FakeCluster) -> None:
    for given in ('{"a":{"0":5}}', '{"a":{"0":5,"1":1,"2":1}}', '{"b":{"0":1}}'):
        with pytest.raises(LocalError, match="must have all partitions"):
            resolve(cluster, startingOffsets=given)
        with pytest.raises(LocalError, match="must have all partitions"):
            resolve(cluster, startingOffsetsByTimestamp=given)


def test_a_time_after_the_last_record(cluster: FakeCluster) -> None:
    with pytest.raises(LocalError, match="a-1"):
        resolve(cluster, startingTimestamp="9000")
    lax = {"startingTimestamp": "9000", "startingOffsetsByTimestampStrategy": "latest"}
    assert resolve(cluster, **lax) == {A0: 3, A1: 4}
    positions, options = make(cluster, streaming=False, subscribe="a", endingTimestamp="9000")
    assert positions.resolve(options.end, positions.required(), starting=False) == {A0: 3, A1: 4}


def test_an_end_below_a_known_offset_is_requested_again(cluster: FakeCluster) -> None:
    cluster.latest_answers = [2]
    positions, _ = make(cluster, assign='{"a":[0]}', fetchOffset__retryIntervalMs="0")
    assert positions.latest([A0], known={A0: 8}) == {A0: 10}
    cluster.latest_answers = [2, 2, 2, 2]
    assert positions.latest([A0], known={A0: 8}) == {A0: 2}
