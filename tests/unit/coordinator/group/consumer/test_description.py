"""ConsumerGroupDescribe."""

from __future__ import annotations

from tests.support.consumer_bench import ConsumerBench


def test_a_group_and_its_members(bench: ConsumerBench) -> None:
    bench.join("a", "t", instance_id="i", rack_id="r")
    described = bench.machine.describe_consumer("g")
    assert (described.group_state, described.group_epoch, described.assignment_epoch) == ("Stable", 2, 2)
    assert described.assignor_name == "uniform"
    member = described.members[0]
    assert (member.member_id, member.instance_id, member.rack_id, member.member_epoch) == ("a", "i", "r", 2)
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["t"], "")
    assert member.member_type == 1
    assert [(each.topic_name, each.partitions) for each in member.assignment.topic_partitions] == [
        ("t", [0, 1, 2, 3])
    ]


def test_partitions_being_revoked_are_described(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.join("b", "t")
    bench.beat("a", 2)
    described = bench.machine.describe_consumer("g")
    shown = {
        member.member_id: (
            [each.partitions for each in member.assignment.topic_partitions],
            [each.partitions for each in member.target_assignment.topic_partitions],
        )
        for member in described.members
    }
    assert shown == {"a": ([[0, 1, 2, 3]], [[0, 1]]), "b": ([], [[2, 3]])}


def test_members_of_the_classic_protocol_are_marked(bench: ConsumerBench) -> None:
    bench.join("a", "t")
    bench.classic_join("c", "t")
    described = bench.machine.describe_consumer("g")
    assert [(member.member_id, member.member_type) for member in described.members] == [("a", 1), ("c", 0)]


def test_deleted_topics_are_omitted(bench: ConsumerBench) -> None:
    bench.join("a", "t", "u")
    bench.delete_topic("u")
    member = bench.machine.describe_consumer("g").members[0]
    assert [each.topic_name for each in member.assignment.topic_partitions] == ["t"]
    assert [each.topic_name for each in member.target_assignment.topic_partitions] == ["t"]
