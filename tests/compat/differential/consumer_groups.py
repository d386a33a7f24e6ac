"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and what other requests say of consumer groups."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.join_group import JoinGroupRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.group_members import join, name_member, settled, sync
from tests.compat.differential.group_offsets import commit, erase, fetch, ready
from tests.compat.differential.player import Player

MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
OTHER = "BBBBBBBBBBBBBBBBBBBBBB"
BEAT, DESCRIBE = 1, 1


def beat(group: str, epoch: int, member_id: str = MEMBER, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)


def entering(group: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member."""
    defaults: dict[str, Any] = {
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": list(topics),
        "topic_partitions": [],
    }
    return beat(group, 0, **(defaults | fields))


def owned(player: Player, topic: str, *partitions: int) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=player.topic_id(topic), partitions=list(partitions))]


def describe(player: Player, label: str, *groups: str) -> None:
    player.ask(f"{label}: described", ConsumerGroupDescribeRequest(group_ids=list(groups)), DESCRIBE)


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_group_heartbeat(player: Player) -> None:
    here, there = player.create("here", 3), player.create("there", 2)
    group, unknown, classic = player.topic("group"), player.topic("unknown"), player.topic("classic")
    ready(player, group, unknown, classic)
    ask = player.ask
    for label, request in {
        "no group": entering("", here),
        "no member": entering(group, here, member_id=""),
        "no timeout": entering(group, here, rebalance_timeout_ms=-1),
        "no topics": entering(group, subscribed_topic_names=None),
        "empty instance": entering(group, here, instance_id=""),
        "empty rack": entering(group, here, rack_id=""),
        "unknown assignor": entering(group, here, server_assignor="nonsense"),
        "empty assignor": entering(group, here, server_assignor=""),
        "owns something": entering(group, here, topic_partitions=owned(player, here, 0)),
        "owns null": entering(group, here, topic_partitions=None),
        "unknown group": beat(unknown, 5),
        "leave of an unknown group": beat(unknown, -1),
        "epoch -3": beat(unknown, -3),
        "away without a name": beat(group, -2),
    }.items():
        if not (label == "no member" and player.version == 0):
            ask(label, request)
    ask("joins", entering(group, here))
    ask("joins again", entering(group, here))
    describe(player, "one", group)
    ask("beats", beat(group, 2))
    ask("has what it was given", beat(group, 2, topic_partitions=owned(player, here, 0, 1, 2)))
    ask("an epoch ahead", beat(group, 9))
    ask("an epoch behind", beat(group, 1))
    ask("unknown member", beat(group, 2, OTHER))
    ask("a bad timeout", beat(group, 2, rebalance_timeout_ms=0))
    _commits(player, group, here)
    _others(player, group, here)
    player.until(lambda: _moved(player, group, here, there))
    describe(player, "more topics", group)
    ask("leaves", beat(group, -1))
    describe(player, "left", group)
    ask("leaves again", beat(group, -1))
    ask("another joins", entering(group, here, member_id=OTHER))
    leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=OTHER)])
    ask("and is removed as a classic member is", leaving, 5)
    describe(player, "removed", group)
    ask("deleted", DeleteGroupsRequest(groups_names=[group]), 2)
    describe(player, "gone", group)


def _moved(player: Player, group: str, *topics: str) -> bool:
    """Subscribe to more; new plans are made at most once a second, so the answer may have to be waited for."""
    answer = player.quietly(beat(group, 2, subscribed_topic_names=list(topics), rebalance_timeout_ms=30_000))
    return bool(answer.member_epoch == 3)


def _commits(player: Player, group: str, topic: str) -> None:
    for member, epoch in ((MEMBER, 2), (MEMBER, 1), (MEMBER, 9), (OTHER, 2), ("", -1), (MEMBER, -1)):
        fields = {"member_id": member, "generation_id_or_member_epoch": epoch}
        for version in (8, 9, 10):
            request = commit(player, group, (topic, {0: epoch}), version=version, **fields)
            player.ask(f"commit of {member} in {epoch}, version {version}", request, version)
        asked = fetch(player, group, (topic, [0]), version=9, member_id=member, member_epoch=epoch)
        player.ask(f"fetch of {member} in {epoch}", asked, 9)
    player.ask("fetch by anybody", fetch(player, group, (topic, [0]), version=8), 8)


def _others(player: Player, group: str, topic: str) -> None:
    """What requests that are not made for consumer groups get."""
    player.ask("classic describe", DescribeGroupsRequest(groups=[group]), 6)
    player.ask("classic describe, old", DescribeGroupsRequest(groups=[group]), 5)
    player.ask("sync", sync(group, MEMBER, 2, 5), 5)
    player.ask("sync of an unknown member", sync(group, OTHER, 2, 5), 5)
    player.ask("classic beat", HeartbeatRequest(group_id=group, member_id=MEMBER, generation_id=2), 4)
    strangers = [MemberIdentity(member_id=OTHER), MemberIdentity(member_id="", group_instance_id="i")]
    player.ask("strangers leave", LeaveGroupRequest(group_id=group, members=strangers), 5)
    player.ask("classic join, another type", join(group, protocol_type="connect"), 9)
    player.ask("delete", DeleteGroupsRequest(groups_names=[group]), 2)
    player.ask("delete offsets", erase(group, (topic, [0])), 0)
    for filters in (
        {"types_filter": ["consumer"]},
        {"types_filter": ["classic"]},
        {"states_filter": ["stable"]},
    ):
        answer = player.quietly(ListGroupsRequest(**filters), 5)
        own = [player.plain(each) for each in answer.groups if each.group_id == group]
        player.keep(f"listed {filters}", own)


@scenario(ConsumerGroupHeartbeatRequest)
def consumer_group_instance(player: Player) -> None:
    here = player.create("here", 2)
    group = player.topic("group")
    ready(player, group)
    ask = player.ask
    ask("instance joins", entering(group, here, instance_id="i"))
    ask("its double", entering(group, here, instance_id="i", member_id=OTHER))
    ask("the wrong instance", beat(group, 2, instance_id="j"))
    ask("goes for a while", beat(group, -2, instance_id="i"))
    describe(player, "away", group)
    ask("its successor", entering(group, here, instance_id="i", member_id=OTHER))
    ask("who it was", beat(group, 2, instance_id="i"))
    describe(player, "back", group)
    ask("the wrong one leaves", beat(group, -1, OTHER, instance_id="j"))
    ask("leaves", beat(group, -1, OTHER, instance_id="i"))


@scenario(ConsumerGroupHeartbeatRequest, since=1)
def consumer_group_pattern(player: Player) -> None:
    here = player.create("here", 2)
    group, other = player.topic("group"), player.topic("other")
    ready(player, group, other)
    pattern = f"{player.prefix}-h.*"
    for label, regex in {"broken": "(", "look-ahead": "(?=a)b", "empty": ""}.items():
        player.ask(label, entering(other, subscribed_topic_regex=regex))
    player.ask("joins", entering(group, subscribed_topic_names=None, subscribed_topic_regex=pattern))

    def assigned() -> bool:
        answer = player.quietly(ConsumerGroupDescribeRequest(group_ids=[group]), DESCRIBE)
        if not answer.groups[0].members[0].target_assignment.topic_partitions:
            player.quietly(beat(group, answer.groups[0].members[0].member_epoch))
            return False
        return True

    player.until(assigned)
    answer = player.quietly(ConsumerGroupDescribeRequest(group_ids=[group]), DESCRIBE)
    (member,) = answer.groups[0].members
    player.keep("target", player.plain(member.target_assignment))
    player.keep("pattern", member.subscribed_topic_regex == pattern)
    player.keep("names", member.subscribed_topic_names)
    player.keep("all of it", member.target_assignment.topic_partitions[0].topic_name == here)


def plan_at_once(player: Player, group: str) -> None:
    """Let a group make new plans without a pause between them, so that every answer is certain."""
    setting = AlterableConfig(name="consumer.assignment.interval.ms", config_operation=0, value="0")
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=[setting])
    answer = player.quietly(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer


@scenario(JoinGroupRequest, newest_only=True)
def consumer_group_of_both_protocols(player: Player) -> None:
    """A classic member joins a consumer group, takes its part, and the last consumer's leaving makes it classic."""
    here = player.create("here", 4)
    group = player.topic("group")
    ready(player, group)
    plan_at_once(player, group)
    ask = player.ask
    ask("a consumer", entering(group, here), BEAT)
    joined = player.quietly(join(group, topics=(here,), group_instance_id="i"), 9)
    name_member(player, "classic", joined.member_id)
    player.keep("a classic member", player.plain(joined))
    describe(player, "both", group)
    ask("the consumer gives up", beat(group, 2), BEAT)
    ask("it has given up", beat(group, 2, topic_partitions=owned(player, here, 0, 1)), BEAT)
    describe(player, "shared", group)
    ask("an unknown classic member", join(group, OTHER, topics=(here,)), 9)
    ask("the consumer leaves", beat(group, -1), BEAT)
    ask("described as consumer group", ConsumerGroupDescribeRequest(group_ids=[group]), DESCRIBE)
    described = player.quietly(DescribeGroupsRequest(groups=[group]), 6)
    player.keep("its state", described.groups[0].group_state)
    player.keep("its members", len(described.groups[0].members))


@scenario(ConsumerGroupDescribeRequest)
def consumer_group_describe(player: Player) -> None:
    here = player.create("here", 2)
    group, unknown, classic, empty = (player.topic(name) for name in ("group", "unknown", "classic", "empty"))
    ready(player, group, unknown, classic, empty)
    player.quietly(entering(group, here, rack_id="r", server_assignor="range"), BEAT)
    player.quietly(commit(player, empty, (here, {0: 1}), version=9), 9)
    settled(player, classic)
    for name in (group, unknown, classic, empty, ""):
        player.ask(name, ConsumerGroupDescribeRequest(group_ids=[name]))
        asked = ConsumerGroupDescribeRequest(group_ids=[name], include_authorized_operations=True)
        player.ask(f"{name} and operations", asked)
    player.ask("all", ConsumerGroupDescribeRequest(group_ids=[group, unknown, classic]))
    player.ask("none", ConsumerGroupDescribeRequest(group_ids=[]))


@scenario(OffsetCommitRequest, newest_only=True)
def empty_groups_change_their_kind(player: Player) -> None:
    """A group that only has offsets, or whose members left, becomes what the next member speaks."""
    here = player.create("here")
    group = player.topic("group")
    ready(player, group)
    player.ask("offsets first", commit(player, group, (here, {0: 5})))
    player.ask("a consumer joins", entering(group, here), BEAT)
    describe(player, "consumer", group)
    player.ask("it leaves", beat(group, -1), BEAT)
    settled(player, group, "classic member", topics=(here,))
    player.ask("classic", DescribeGroupsRequest(groups=[group]), 6)
    describe(player, "not consumer", group)
    player.ask("offsets stayed", fetch(player, group, everything=True, version=9), 9)
