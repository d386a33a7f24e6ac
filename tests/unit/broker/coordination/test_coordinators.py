"""Which partition is responsible, and what a coordinator does with promises and with the metadata."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from typing import Any, cast

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.broker.coordination import coordinators
from ottla.broker.coordination.coordinators import (
    Coordinator,
    GroupCoordinator,
    TxnCoordinator,
    java_hash,
    partition_of,
)
from ottla.broker.coordination.verification import TxnVerifier
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.runtime.decision import Decision
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.storage.producers.producer_state import Verification
from tests.support.shards import Bench, Words, word

TOPIC_ID = uuid.UUID(int=5)
NODE = 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -(1 << 31)),
        ("🦆", 31 * 0xD83E + 0xDD86),
        ("ünï", (0xFC * 31 + 0x6E) * 31 + 0xEF),
    ],
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_partitions_are_kafkas() -> None:
    assert partition_of("polygenelubricants", 50) == 0
    assert partition_of("group", 50) == 98629247 % 50
    negative = next(text for text in map(str, range(10**9, 2 * 10**9)) if java_hash(text) < 0)
    assert partition_of(negative, 50) == -java_hash(negative) % 50


def test_a_promise_is_awaited() -> None:
    async def scene() -> tuple[int, ErrorCode]:
        late: Promise[int] = Promise()
        waiting = asyncio.ensure_future(settled(late))
        await asyncio.sleep(0)
        assert not waiting.done()
        late.keep(await settled(Promise.kept(4)) + 1)
        failing: Promise[int] = Promise()
        refused = asyncio.ensure_future(settled(failing))
        await asyncio.sleep(0)
        failing.fail(ApiError(ErrorCode.NOT_COORDINATOR))
        with pytest.raises(ApiError) as caught:
            await refused
        return await waiting, caught.value.code

    assert asyncio.run(scene()) == (5, ErrorCode.NOT_COORDINATOR)


def test_a_cancelled_wait_is_not_notified() -> None:
    async def scene() -> None:
        late: Promise[int] = Promise()
        waiting = asyncio.ensure_future(settled(late))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        late.keep(1)

    asyncio.run(scene())


class Following:
    """A coordinator that applies changes of its topic."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.coordinator: Coordinator[Any] = Coordinator(self.bench.runtime, NODE, 7)
        self.image: MetadataImage = EMPTY_IMAGE

    def replay(self, *records: object) -> None:
        delta = MetadataDelta(self.image)
        for record in records:
            delta.replay(record)  # type: ignore[arg-type]
        self.image = delta.apply(self.image.offset + 1, 0)
        self.coordinator.announce(delta, self.image)
        self.coordinator.changed(delta, self.image)
        self.bench.scheduler.run()

    def create(self, leaders: Mapping[int, int]) -> None:
        self.replay(
            TopicRecord(name="__words", topic_id=TOPIC_ID),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=TOPIC_ID,
                    replicas=[1, 2],
                    isr=[1, 2],
                    leader=leader,
                    leader_epoch=0,
                )
                for index, leader in leaders.items()
            ),
        )

    @property
    def led(self) -> list[int]:
        return [index for index in range(10) if self.bench.runtime.is_active(index)]


def test_shards_follow_leadership() -> None:
    following = Following()
    following.create({0: NODE, 1: 2, 2: NODE})
    assert following.led == [0, 2]
    following.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    following.replay(PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=NODE))
    assert following.led == [1, 2]
    assert following.bench.machine.leader_epoch == 1
    following.replay(RemoveTopicRecord(topic_id=TOPIC_ID))
    assert following.led == []


def test_leaderships_end_before_the_replicas_have_followed() -> None:
    following = Following()
    following.create({0: NODE, 1: 2})
    first = following.image
    moved = MetadataDelta(first)
    moved.replay(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    moved.replay(PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=NODE))
    second = moved.apply(first.offset + 1, 0)
    following.coordinator.announce(moved, second)
    following.bench.scheduler.run()
    assert following.led == []
    back = MetadataDelta(second)
    back.replay(PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=2))
    third = back.apply(second.offset + 1, 0)
    following.coordinator.announce(back, third)
    following.coordinator.changed(moved, second)
    following.bench.scheduler.run()
    assert following.led == []
    following.coordinator.changed(back, third)
    assert following.led == []


def test_transactions_use_an_image_before_the_replicas_have_followed() -> None:
    """Handlers add partitions of the newest image: the coordinator must not take them for deleted ones."""
    following = Following()
    following.coordinator = TxnCoordinator(cast(Runtime[TxnStateMachine], following.bench.runtime), NODE, 7)
    following.create({0: NODE})
    first = following.image
    created = MetadataDelta(first)
    created.replay(TopicRecord(name="new", topic_id=uuid.UUID(int=6)))
    second = created.apply(first.offset + 1, 0)
    following.coordinator.announce(created, second)
    assert following.bench.machine.images[-1] is second
    empty = MetadataDelta(second)
    third = empty.apply(second.offset + 1, 0)
    following.coordinator.announce(empty, third)
    following.coordinator.changed(created, second)
    assert following.bench.machine.images[-1] is third
    assert following.bench.runtime.image is third


def test_the_start_applies_the_image() -> None:
    following = Following()
    following.create({0: NODE, 1: 2})
    fresh = Bench()
    coordinator: Coordinator[Words] = Coordinator(fresh.runtime, NODE, 7)
    coordinator.load(following.image)
    fresh.scheduler.run()
    assert fresh.runtime.is_active(0)
    assert not fresh.runtime.is_active(1)
    assert fresh.machine.images == [following.image]


def test_the_number_of_partitions_is_the_topics() -> None:
    following = Following()
    assert following.coordinator.partition_for("group") == 98629247 % 7
    following.create(dict.fromkeys(range(3), NODE))
    assert following.coordinator.partition_for("group") == 98629247 % 3


def test_all_shards_are_read_except_those_that_resigned() -> None:
    following = Following()
    following.create({0: NODE, 1: NODE})

    async def numbers() -> list[int]:
        return await following.coordinator.read_all(lambda machine: machine.partition)

    assert asyncio.run(numbers()) == [0, 1]

    async def while_one_goes() -> list[int]:
        following.bench.runtime.write(1, lambda _: Decision(None, [word("x")]))
        asked = asyncio.ensure_future(numbers())
        await asyncio.sleep(0)
        following.bench.runtime.resign(1)
        return await asked

    assert asyncio.run(while_one_goes()) == [0]
    following.bench.runtime.elect(5, 0)
    with pytest.raises(ApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        asyncio.run(numbers())


class RefusingVerifier:
    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def verify(self, *arguments: object, **options: object) -> Promise[Verification | None]:
        promise: Promise[Verification | None] = Promise()
        promise.fail(ApiError(self._code))
        return promise


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_errors_of_a_verification_are_those_of_a_group_coordinator(
    code: ErrorCode, expected: ErrorCode
) -> None:
    runtime = cast(Runtime[GroupStateMachine], Bench().runtime)
    groups = GroupCoordinator(runtime, NODE, 7)
    groups.verifier = cast(TxnVerifier, RefusingVerifier(code))
    with pytest.raises(ApiError) as caught:
        asyncio.run(groups.write_transactional("group", "id", 1, 0, lambda _: Decision(None), api_version=5))
    assert caught.value.code is expected


@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 513, 32767])
def test_long_ids_are_hashed_as_in_java(length: int) -> None:
    text = "".join(chr(97 + number % 26) for number in range(length - 1)) + "\u20ac"
    expected = 0
    for character in text:
        expected = (31 * expected + ord(character)) & 0xFFFF_FFFF
    assert java_hash(text) & 0xFFFF_FFFF == expected


def test_long_ids_are_not_cached() -> None:
    """Clients choose the ids: the cache would retain 16,384 of them, each with up to 128 KiB."""
    before = coordinators._cached_partition.cache_info().currsize
    for number in range(10):
        partition_of(f"{number}" * 300, 50)
    assert coordinators._cached_partition.cache_info().currsize == before
