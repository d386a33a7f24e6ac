"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit."""

from __future__ import annotations

import uuid
from typing import Any

from ottla.base.ids import ZERO_UUID
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player

GROUP, TRANSACTION = 0, 1
STARTING = (14, 15, 16)
UNKNOWN_ID = uuid.UUID(int=77)
TOPIC_IDS = 10


def ready(player: Player, *groups: str) -> None:
    """Wait for the coordinators of these groups."""
    for group in groups:
        asked = FindCoordinatorRequest(key=group)
        player.until(lambda asked=asked: player.quietly(asked, 3).error_code == 0)
        everything = OffsetFetchRequest(group_id=group, topics=None)
        player.until(lambda everything=everything: player.quietly(everything, 7).error_code not in STARTING)


def commit(
    player: Player,
    group: str,
    *topics: tuple[str, dict[int, int]],
    metadata: str | None = "note",
    epoch: int = -1,
    version: int | None = None,
    ids: dict[str, uuid.UUID] | None = None,
    **fields: Any,
) -> OffsetCommitRequest:
    """A commit of offsets by topic and partition, by name or by id as the version has it."""
    version = player.version if version is None else version
    by_id = version >= TOPIC_IDS
    known = {name: key for key, name in player.names.items()} | (ids or {})
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(
                name="" if by_id else name,
                topic_id=known.get(name, UNKNOWN_ID) if by_id else ZERO_UUID,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_metadata=metadata,
                        committed_leader_epoch=epoch if version >= 6 else -1,
                    )
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics
        ],
        **fields,
    )


@scenario(OffsetCommitRequest, newest_only=True)
def offset_commit_of_too_much(player: Player) -> None:
    """More than fits into a batch of the offsets topic is refused as a whole."""
    wide = player.create("wide", 300)
    group = player.topic("group")
    ready(player, group)
    player.ask("too much", commit(player, group, (wide, dict.fromkeys(range(300), 1)), metadata="x" * 4096))
    player.ask("stored", fetch(player, group, everything=True, version=9), 9)
    player.ask(
        "a part of it", commit(player, group, (wide, dict.fromkeys(range(200), 1)), metadata="x" * 4096)
    )


def fetch(
    player: Player,
    group: str,
    *topics: tuple[str, list[int]],
    everything: bool = False,
    version: int | None = None,
    stable: bool = False,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> OffsetFetchRequest:
    version = player.version if version is None else version
    known = {name: key for key, name in player.names.items()}
    if version < 8:
        named = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics]
        return OffsetFetchRequest(
            group_id=group, topics=None if everything else named, require_stable=stable and version >= 7
        )
    by_id = version >= TOPIC_IDS
    asked = OffsetFetchRequestGroup(
        group_id=group,
        member_id=member_id if version >= 9 else None,
        member_epoch=member_epoch if version >= 9 else -1,
        topics=None
        if everything
        else [
            OffsetFetchRequestTopics(
                name="" if by_id else name,
                topic_id=known.get(name, UNKNOWN_ID) if by_id else ZERO_UUID,
                partition_indexes=indexes,
            )
            for name, indexes in topics
        ],
    )
    return OffsetFetchRequest(groups=[asked], require_stable=stable)


@scenario(OffsetCommitRequest)
def offset_commit(player: Player) -> None:
    here, there = player.create("here", 3), player.create("there")
    nowhere, new = player.topic("nowhere"), player.topic("new")
    group, other = player.topic("group"), player.topic("other")
    ready(player, group, other, new, "")
    ask = player.ask
    ask("one", commit(player, group, (here, {0: 5})))
    ask("again", commit(player, group, (here, {0: 3})))
    ask("several", commit(player, group, (here, {0: 1, 1: 2, 2: 3}), (there, {0: 4})))
    ask("negative", commit(player, group, (here, {0: -7})))
    ask("nothing", commit(player, group))
    ask("no partitions", commit(player, group, (here, {})))
    ask("unknown topic", commit(player, group, (nowhere, {0: 1, 1: 2})))
    ask("unknown partition", commit(player, group, (here, {7: 1, -1: 1})))
    ask("mixed", commit(player, group, (here, {0: 1, 9: 1, 1: 1}), (nowhere, {0: 1}), (here, {2: 1})))
    ask("the same twice", commit(player, group, (here, {0: 1}), (here, {0: 2})))
    for label, metadata in {
        "none": None,
        "empty": "",
        "longest": "x" * 4096,
        "too long": "x" * 4097,
        "wide": "é" * 4096,
        "pairs": "😀" * 2048,
        "too many pairs": "😀" * 2049,
    }.items():
        ask(f"metadata {label}", commit(player, group, (here, {0: 1, 1: 1}), metadata=metadata))
    ask("epoch", commit(player, group, (here, {0: 1}), epoch=4))
    for label, fields in {
        "generation 3": {"generation_id_or_member_epoch": 3},
        "generation 0": {"generation_id_or_member_epoch": 0},
        "generation -7": {"generation_id_or_member_epoch": -7},
        "member": {"member_id": "m"},
        "member and generation": {"member_id": "m", "generation_id_or_member_epoch": 3},
    }.items():
        ask(f"{label} of a group", commit(player, group, (here, {0: 1}), **fields))
        ask(f"{label} of no group", commit(player, new, (here, {0: 1}), **fields))
    if player.version >= 7:
        ask("instance", commit(player, group, (here, {0: 1}), group_instance_id="i"))
    if player.version <= 4:
        ask("retention", commit(player, other, (here, {0: 1}), retention_time_ms=60_000))
        ask("no retention", commit(player, other, (here, {1: 1}), retention_time_ms=0))
        ask("what is kept", fetch(player, other, (here, [0]), version=7), 7)
    if player.version >= TOPIC_IDS:
        ask("no id", commit(player, group, (here, {0: 1}), ids={here: ZERO_UUID}))
    ask("the empty group", commit(player, "", (here, {0: 1})))
    for name in (group, new, ""):
        ask(f"stored in {name}", fetch(player, name, everything=True, version=9), 9)


@scenario(OffsetFetchRequest)
def offset_fetch(player: Player) -> None:
    here, there = player.create("here", 3), player.create("there")
    group, other, unknown = player.topic("group"), player.topic("other"), player.topic("unknown")
    nowhere = player.topic("nowhere")
    ready(player, group, other, unknown)
    for request in (
        commit(player, group, (here, {0: 5, 1: 6}), (there, {0: 7}), version=9, epoch=3),
        commit(player, other, (here, {2: 8}), version=9, metadata=None),
    ):
        player.quietly(request, 9)
    ask = player.ask
    ask("one", fetch(player, group, (here, [0])))
    ask("several", fetch(player, group, (here, [1, 0, 2]), (there, [0])))
    ask("twice", fetch(player, group, (here, [0, 0]), (here, [0])))
    ask("unknown", fetch(player, group, (nowhere, [0, 1]), (here, [9, -1])))
    ask("nothing", fetch(player, group))
    ask("no partitions", fetch(player, group, (here, [])))
    ask("of an unknown group", fetch(player, unknown, (here, [0])))
    ask("stable", fetch(player, group, (here, [0, 2]), stable=True))
    if player.version >= 2:
        ask("everything", fetch(player, group, everything=True))
        ask("everything, stable", fetch(player, group, everything=True, stable=True))
        ask("everything of an unknown group", fetch(player, unknown, everything=True))
    if player.version >= 8:
        asked = [fetch(player, name, (here, [0, 2])).groups[0] for name in (group, other, unknown, group)]
        asked.append(fetch(player, other, everything=True).groups[0])
        ask("groups", OffsetFetchRequest(groups=asked))
        ask("no groups", OffsetFetchRequest(groups=[]))
    if player.version >= 9:
        for member, epoch in (("m", -1), (None, 3), ("m", 3), ("", -1), ("", 0), (None, -5)):
            ask(
                f"as {member} in {epoch}",
                fetch(player, group, (here, [0]), member_id=member, member_epoch=epoch),
            )


def erase(group: str, *topics: tuple[str, list[int]]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in indexes],
            )
            for name, indexes in topics
        ],
    )


@scenario(OffsetDeleteRequest)
def offset_delete(player: Player) -> None:
    here, there = player.create("here", 3), player.create("there")
    group, unknown, nowhere = player.topic("group"), player.topic("unknown"), player.topic("nowhere")
    ready(player, group, unknown)
    player.quietly(commit(player, group, (here, {0: 1, 1: 2, 2: 3}), (there, {0: 4}), version=9), 9)
    player.ask("of an unknown group", erase(unknown, (here, [0])))
    player.ask("nothing of an unknown group", erase(unknown))
    player.ask("of the empty group", erase("", (here, [0])))
    player.ask("nothing", erase(group))
    player.ask("no partitions", erase(group, (here, [])))
    player.ask("unknown", erase(group, (nowhere, [0]), (here, [9])))
    player.ask("mixed", erase(group, (here, [0, 9, 0]), (nowhere, [0])))
    player.ask("twice", erase(group, (here, [1]), (here, [1])))
    player.ask("left", fetch(player, group, everything=True, version=9), 9)
    player.ask("again", erase(group, (here, [0, 1])))


def txn_commit(
    player: Player, group: str, producer: tuple[int, int], *topics: tuple[str, dict[int, int]], **fields: Any
) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest(
        transactional_id=player.topic("tx"),
        group_id=group,
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
                    for index, offset in partitions.items()
                ],
            )
            for name, partitions in topics
        ],
        **fields,
    )


@scenario(TxnOffsetCommitRequest)
def txn_offset_commit(player: Player) -> None:
    here = player.create("here", 3)
    group, transaction, nowhere = player.topic("group"), player.topic("tx"), player.topic("nowhere")
    ready(player, group)
    asked = FindCoordinatorRequest(key=transaction, key_type=TRANSACTION)
    player.until(lambda: player.quietly(asked, 3).error_code == 0)
    started = InitProducerIdRequest(transactional_id=transaction, transaction_timeout_ms=60_000)
    player.until(lambda: player.quietly(started, 4).error_code == 0)
    producer = player.quietly(started, 4)
    identity = (producer.producer_id, producer.producer_epoch)
    newest = player.version >= 5

    def stored(label: str) -> None:
        player.ask(f"{label}: stored", fetch(player, group, everything=True, version=9), 9)
        asked = fetch(player, group, (here, [0, 1]), stable=True, version=9)
        player.ask(f"{label}: stable", asked, 9)

    def end(committed: bool) -> None:
        nonlocal identity
        ending = EndTxnRequest(
            transactional_id=transaction,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=committed,
        )
        answer = player.quietly(ending, 5 if newest else 3)
        player.keep(f"ended {committed}", answer.error_code)
        if newest:
            identity = (answer.producer_id, answer.producer_epoch)

    def is_complete() -> bool:
        """Whether the markers are written: before, the next request of the transaction is CONCURRENT_TRANSACTIONS."""
        described = DescribeTransactionsRequest(transactional_ids=[transaction])
        return not player.quietly(described, 0).transaction_states[0].transaction_state.startswith("Prepare")

    for label, request in {
        "the empty group": txn_commit(player, "", identity, (here, {0: 1})),
        "unknown": txn_commit(player, group, identity, (nowhere, {0: 1}), (here, {9: 1})),
        "nothing": txn_commit(player, group, identity),
    }.items():
        player.ask(label, request)
    for committed in (False, True):
        if not newest:
            joined = AddOffsetsToTxnRequest(
                transactional_id=transaction,
                producer_id=identity[0],
                producer_epoch=identity[1],
                group_id=group,
            )
            player.until(lambda joined=joined: player.quietly(joined, 3).error_code == 0)
        request = txn_commit(player, group, identity, (here, {0: 5, 9: 6}))
        player.ask(f"in a transaction, {committed}", request)
        stored("open")
        end(committed)
        player.until(is_complete)
        player.until(
            lambda: all(
                not each.error_code
                for each in player.quietly(fetch(player, group, (here, [0]), stable=True, version=9), 9)
                .groups[0]
                .topics[0]
                .partitions
            )
        )
        stored("ended")
    if player.version >= 3:
        for member, generation in (("m", 4), ("", 4), ("m", -1)):
            request = txn_commit(
                player, group, identity, (here, {0: 5}), member_id=member, generation_id=generation
            )
            player.ask(f"as {member} in {generation}", request)
    player.ask("not the producer", txn_commit(player, group, (identity[0], identity[1] + 7), (here, {0: 1})))
