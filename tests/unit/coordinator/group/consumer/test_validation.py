"""Invalid heartbeats and their error messages."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode
from tests.support.consumer_bench import ConsumerBench

JOIN = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 1000, "owned": {}}


@pytest.mark.parametrize(
    ("member", "epoch", "fields", "text"),
    [
        ("", 0, JOIN, "MemberId can't be empty."),
        (" ", 0, JOIN, "MemberId can't be empty."),
        ("", 1, {}, "MemberId can't be empty."),
        ("a", 0, {**JOIN, "group_id": ""}, "GroupId can't be empty."),
        ("a", 0, {**JOIN, "group_id": " \t"}, "GroupId can't be empty."),
        ("a", 0, {**JOIN, "instance_id": ""}, "InstanceId can't be empty."),
        ("a", 0, {**JOIN, "rack_id": ""}, "RackId can't be empty."),
        (
            "a",
            0,
            {**JOIN, "rebalance_timeout_ms": -1},
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        ("a", 0, {**JOIN, "owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ("a", 0, {**JOIN, "owned": {"t": (0,)}}, "TopicPartitions must be empty when (re-)joining."),
        (
            "a",
            0,
            {**JOIN, "subscribed_topic_names": None},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ("a", -2, {}, "InstanceId can't be null."),
        ("a", -3, {}, "MemberEpoch is invalid."),
    ],
)
def test_an_invalid_request(
    bench: ConsumerBench, member: str, epoch: int, fields: dict[str, Any], text: str
) -> None:
    assert bench.refused(member, epoch, **fields) == (ErrorCode.INVALID_REQUEST, text)


@pytest.mark.parametrize("epoch", [1, -1])
def test_version_0_may_leave_out_the_member_id_only_when_it_joins(bench: ConsumerBench, epoch: int) -> None:
    assert bench.refused("", epoch, version=0).text == "MemberId can't be empty."


def test_an_unknown_assignor_is_refused(bench: ConsumerBench) -> None:
    assert bench.refused("a", 0, **JOIN, server_assignor="best") == (
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        "ServerAssignor best is not supported. Supported assignors: uniform, range.",
    )


def test_a_disabled_assignor_is_refused() -> None:
    bench = ConsumerBench({"group.consumer.assignors": "range"}, t=1)
    assert bench.refused("a", 0, **JOIN, server_assignor="uniform").code is ErrorCode.UNSUPPORTED_ASSIGNOR
    assert bench.join("a", "t").epoch == 2


def test_an_empty_subscription_is_valid(bench: ConsumerBench) -> None:
    assert bench.join("a", "t").epoch == 2
    assert bench.beat("b", 0, **{**JOIN, "subscribed_topic_names": []}).parts == {}
