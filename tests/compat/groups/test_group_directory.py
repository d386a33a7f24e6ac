"""Groups and offsets live on in the directory: what Apache Kafka wrote Ottla knows, and the other way round.

An open transaction travels too: its offsets are held back by the broker that follows, which ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.peers import ONE_NODE, KafkaPeer
from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from tests.compat.differential.consumer_groups import entering
from tests.compat.differential.group_members import settled
from tests.compat.differential.group_offsets import TRANSACTION, commit, erase, fetch, ready, txn_commit
from tests.compat.differential.player import Player
from tests.support.raw import Address

pytestmark = pytest.mark.compat

SETTINGS = {"node.id": "1", **ONE_NODE}
SIMPLE, CLASSIC, CONSUMER, PENDING = "simple", "classic", "consumer", "pending"
NAMES = (SIMPLE, CLASSIC, CONSUMER, PENDING)
Producer = tuple[int, int]


@contextmanager
def playing(bootstrap: str) -> Iterator[Player]:
    player = Player(Address.parse(bootstrap), "here", 9)
    yield player
    player.reconnect()


def fill(bootstrap: str) -> Producer:
    """Groups of all kinds, and offsets in a transaction that stays open; returns its producer."""
    with playing(bootstrap) as player:
        return _fill(player)


def _fill(player: Player) -> Producer:
    topic = player.create("t", 3)
    ready(player, *NAMES)
    player.quietly(commit(player, SIMPLE, (topic, {0: 5, 1: 6, 2: 7}), epoch=2), 9)
    player.quietly(erase(SIMPLE, (topic, [1])), 0)
    member = settled(player, CLASSIC, topics=(topic,))
    in_generation: dict[str, Any] = {"member_id": member, "generation_id_or_member_epoch": 1}
    player.quietly(commit(player, CLASSIC, (topic, {0: 8}), **in_generation), 9)
    player.quietly(entering(CONSUMER, topic), 1)
    transaction = player.topic("tx")
    asked = FindCoordinatorRequest(key=transaction, key_type=TRANSACTION)
    player.until(lambda: player.quietly(asked, 3).error_code == 0)
    begin = InitProducerIdRequest(transactional_id=transaction, transaction_timeout_ms=600_000)
    player.until(lambda: player.quietly(begin, 3).error_code == 0)
    began = player.quietly(begin, 3)
    producer = (began.producer_id, began.producer_epoch)
    joined = AddOffsetsToTxnRequest(
        transactional_id=transaction, producer_id=producer[0], producer_epoch=producer[1], group_id=PENDING
    )
    player.until(lambda: player.quietly(joined, 3).error_code == 0)
    player.quietly(commit(player, PENDING, (topic, {0: 1})), 9)
    answer = player.quietly(txn_commit(player, PENDING, producer, (topic, {0: 9})), 3)
    assert answer.topics[0].partitions[0].error_code == 0, answer
    return producer


def known(bootstrap: str) -> dict[str, Any]:
    """What a broker says of all groups."""
    with playing(bootstrap) as player:
        return _known(player)


def _known(player: Player) -> dict[str, Any]:
    topic = player.topic("t")
    player.learn(topic)
    ready(player, *NAMES)
    answers: dict[str, Any] = {
        "listed": sorted(str(each) for each in player.quietly(ListGroupsRequest(), 5).groups),
        "classic": player.quietly(DescribeGroupsRequest(groups=[SIMPLE, CLASSIC, PENDING]), 6),
        "consumer": player.quietly(ConsumerGroupDescribeRequest(group_ids=[CONSUMER]), 1),
    }
    for name in NAMES:
        answers[f"offsets of {name}"] = player.quietly(fetch(player, name, everything=True), 9)
    answers["stable"] = player.quietly(fetch(player, PENDING, (topic, [0]), stable=True), 9)
    return {name: player.plain(answer) for name, answer in answers.items()}


def end(bootstrap: str, producer: Producer) -> int:
    """Commit the transaction; the offset that its group has then."""
    with playing(bootstrap) as player:
        return _end(player, producer)


def _end(player: Player, producer: Producer) -> int:
    ending = EndTxnRequest(
        transactional_id=player.topic("tx"),
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=True,
    )
    player.until(lambda: player.quietly(ending, 3).error_code == 0)
    asked = fetch(player, PENDING, (player.topic("t"), [0]), stable=True)

    def pending() -> Any:
        return player.quietly(asked, 9).groups[0].topics[0].partitions[0]

    player.until(lambda: pending().error_code == 0)
    offset: int = pending().committed_offset
    return offset


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_groups_of_kafka_live_on_in_ottla(kafka_jars: None, tmp_path: Path, ending: str) -> None:
    kafka = KafkaPeer(tmp_path / "shared")
    kafka.start()
    try:
        producer = fill(kafka.bootstrap)
        before = known(kafka.bootstrap)
    finally:
        getattr(kafka, ending)()
    with BrokerProcess(tmp_path / "shared", SETTINGS) as ottla:
        assert known(ottla.bootstrap) == before
        assert end(ottla.bootstrap, producer) == 9


def test_groups_of_ottla_live_on_in_kafka_and_back(kafka_jars: None, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "shared", SETTINGS) as ottla:
        producer = fill(ottla.bootstrap)
        before = known(ottla.bootstrap)
    with KafkaPeer(tmp_path / "shared") as kafka:
        assert known(kafka.bootstrap) == before
        assert end(kafka.bootstrap, producer) == 9
        between = known(kafka.bootstrap)
    with BrokerProcess(tmp_path / "shared", SETTINGS) as ottla:
        assert known(ottla.bootstrap) == between
