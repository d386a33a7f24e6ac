"""Random sequences of requests about one group, by members of both protocols and by other clients.

Seeded: a sequence is the same in every run and on both brokers. All requests use one connection, so none may wait
for a second member. The assignment of partitions to several members is not specified: before a member joins, the
others leave.
"""

from __future__ import annotations

from random import Random
from typing import Any

from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.consumer_groups import BEAT, DESCRIBE, beat, entering, plan_at_once
from tests.compat.differential.group_members import LEAVE, SYNC, join, name_member, plan, sync
from tests.compat.differential.group_offsets import commit, erase, fetch, ready
from tests.compat.differential.player import Player

SEQUENCES = 8
STEPS = 40
KINDS = (
    "classic joins", "classic syncs", "classic beats", "classic leaves",
    "consumer joins", "consumer beats", "consumer leaves",
    "commit", "commit", "commit", "fetch", "delete offset", "delete group",
)  # fmt: skip
CONSUMER = "CCCCCCCCCCCCCCCCCCCCCC"
EPOCHS = (-1, 0, 1, 2, 3)


class _Run:
    """One sequence about one group."""

    def __init__(self, player: Player, seed: int, topic: str) -> None:
        self._player = player
        self._rng = Random(seed)
        self._topic = topic
        self._group = player.topic(f"group-{seed}")
        self._classic, self._generation, self._epoch = "unknown", 0, 0
        ready(player, self._group)
        plan_at_once(player, self._group)

    def step(self, label: str) -> None:
        kind = self._rng.choice(KINDS)
        label = f"{label}: {kind}"
        match kind:
            case "classic joins":
                self._join(label)
            case "classic syncs":
                assignments = plan(self._classic)
                request = sync(self._group, self._classic, self._generation, SYNC, assignments=assignments)
                self._player.ask(label, request, SYNC)
            case "classic beats":
                generation = self._generation + self._rng.choice((0, 0, 1, -1))
                request_ = HeartbeatRequest(
                    group_id=self._group, member_id=self._classic, generation_id=generation
                )
                self._player.ask(f"{label} in {generation}", request_, 4)
            case "classic leaves":
                self._player.ask(label, self._leaving(self._classic), LEAVE)
            case "consumer joins":
                self._player.quietly(self._leaving(self._classic), LEAVE)
                self._beat(label, entering(self._group, self._topic, member_id=CONSUMER))
            case "consumer beats":
                self._beat(label, beat(self._group, self._rng.choice((self._epoch, 1, 2)), CONSUMER))
            case "consumer leaves":
                self._player.ask(label, beat(self._group, -1, CONSUMER), BEAT)
            case "commit":
                self._commit(label)
            case "fetch":
                self._fetch(label)
            case "delete offset":
                self._player.ask(label, erase(self._group, (self._topic, [self._rng.randrange(2)])), 0)
            case "delete group":
                self._player.ask(label, DeleteGroupsRequest(groups_names=[self._group]), 2)
        self._look(f"{label}, then")

    def _join(self, label: str) -> None:
        self._player.quietly(self._leaving(self._classic), LEAVE)
        self._player.quietly(beat(self._group, -1, CONSUMER), BEAT)
        answer = self._player.quietly(join(self._group, topics=(self._topic,)), 3)
        if answer.member_id:
            name_member(self._player, label, answer.member_id)
            self._classic, self._generation = answer.member_id, answer.generation_id
        self._player.keep(label, self._player.plain(answer))

    def _leaving(self, member_id: str) -> LeaveGroupRequest:
        return LeaveGroupRequest(group_id=self._group, members=[MemberIdentity(member_id=member_id)])

    def _beat(self, label: str, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = self._player.ask(label, request, BEAT)
        self._epoch = answer.member_epoch or self._epoch

    def _commit(self, label: str) -> None:
        member = self._rng.choice(("", self._classic, CONSUMER, "unknown"))
        version = self._rng.choice((8, 9, 10))
        offset, partition = self._rng.randrange(50), self._rng.randrange(2)
        epoch = self._rng.choice((self._generation, self._epoch, *EPOCHS))
        fields: dict[str, Any] = {"member_id": member, "generation_id_or_member_epoch": epoch}
        request = commit(
            self._player, self._group, (self._topic, {partition: offset}), version=version, **fields
        )
        self._player.ask(f"{label} in {epoch}, version {version}", request, version)

    def _fetch(self, label: str) -> None:
        member = self._rng.choice((None, "", CONSUMER, "unknown"))
        epoch = self._rng.choice((self._epoch, *EPOCHS))
        request = fetch(
            self._player,
            self._group,
            (self._topic, [0, 1]),
            version=9,
            stable=self._rng.random() < 0.5,
            member_id=member,
            member_epoch=epoch,
        )
        self._player.ask(f"{label} as {member} in {epoch}", request, 9)

    def _look(self, label: str) -> None:
        everything = fetch(self._player, self._group, everything=True, version=8)
        self._player.ask(f"{label}: offsets", everything, 8)
        self._player.ask(f"{label}: classic", DescribeGroupsRequest(groups=[self._group]), 6)
        self._player.ask(
            f"{label}: consumer", ConsumerGroupDescribeRequest(group_ids=[self._group]), DESCRIBE
        )


@scenario(OffsetCommitRequest, newest_only=True)
def groups_by_chance(player: Player) -> None:
    topic = player.create("t", 2)
    for seed in range(SEQUENCES):
        run = _Run(player, seed, topic)
        for turn in range(STEPS):
            run.step(f"{seed}, step {turn}")
