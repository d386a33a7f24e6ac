"""What both brokers still know after a clean stop and after being killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.peers import ONE_NODE, KafkaPeer
from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.compat.differential.catalog import Scenario
from tests.compat.differential.comparison import Deliberate, Transcript, differences
from tests.compat.differential.fetching import fetch, want
from tests.compat.differential.offsets import epoch_ends, list_of
from tests.compat.differential.player import Player
from tests.compat.differential.records import batch, numbered, produce, record, write
from tests.compat.differential.settings import TOPIC, describe
from tests.support.raw import Address

pytestmark = pytest.mark.compat

DELIBERATE = (
    Deliberate(
        "restart by kill", "after: ", r".*\.leader_epoch$",
        "Kafka counts a moment without a leader as an epoch of its own: it goes up by two, ours by one",
    ),
    Deliberate(
        "restart", "after: an older one again", r".*partition_responses\[0\]\.",
        "Kafka's snapshots keep one batch of each producer (45); Ottla knows the last five again",
    ),
)  # fmt: skip
NEWEST_FETCH = FetchRequest.SPEC.versions[-1]


def fill(player: Player) -> tuple[str, str]:
    plain, compacted = (
        player.create("plain", 2, retention_ms="900000000"),
        player.create("compacted", cleanup_policy="compact"),
    )
    write(
        player,
        plain,
        batch(record(b"a"), record(b"b")),
        numbered(500, 0, count=2),
        numbered(500, 2),
        batch(record(b"c")),
    )
    write(player, compacted, *[batch(record(bytes(40), key=b"%d" % n)) for n in range(5)])
    cut = DeleteRecordsTopic(name=plain, partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    player.quietly(DeleteRecordsRequest(topics=[cut], timeout_ms=10_000), 2)
    return plain, compacted


def look(player: Player, when: str, plain: str, compacted: str, session: int) -> None:
    """Everything a client could notice, and that the log goes on as before."""

    def ask(label: str, request: Any, version: int) -> Any:
        return player.ask(f"{when}: {label}", request, version)

    topics = [MetadataRequestTopic(name=plain), MetadataRequestTopic(name=compacted)]
    ask("metadata", MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
    ask("settings", describe((TOPIC, plain, ["retention.ms"]), (TOPIC, compacted, ["cleanup.policy"])), 4)
    ask("producers", DescribeProducersRequest(topics=[TopicRequest(name=plain, partition_indexes=[0, 1])]), 0)
    for at in (-1, -2, -3):
        ask(f"offsets {at}", list_of(player, (plain, 0, at), (compacted, 0, at)), 9)
    ask("everything", fetch(player, want(plain, 0, 1), want(plain, 1), want(compacted)), NEWEST_FETCH)
    ask("below the start", fetch(player, want(plain, 0, 0)), NEWEST_FETCH)
    ask("the old session", fetch(player, session_id=session, session_epoch=1), NEWEST_FETCH)
    ask("epochs", epoch_ends((plain, 0, 0, -1), (plain, 0, 1, -1), (compacted, 0, 0, -1)), 4)
    last = 2 if when == "before" else 3
    ask("the last again", produce(player, (plain, 0, numbered(500, last))), 13)
    ask("an older one again", produce(player, (plain, 0, numbered(500, 0, count=2))), 13)
    ask("the next", produce(player, (plain, 0, numbered(500, last + 1))), 13)
    ask("a gap", produce(player, (plain, 0, numbered(500, 9))), 13)


def history(peer: Any, end: Callable[[Any], Any]) -> Transcript:
    peer.start()
    try:
        player = Player(Address.parse(peer.bootstrap), "restart", 9)
        plain, compacted = fill(player)
        session = player.quietly(fetch(player, want(plain, 0, 1), session_epoch=0), NEWEST_FETCH).session_id
        look(player, "before", plain, compacted, session)
        player.reconnect()
        end(peer)
        peer.start()
        for topic, partitions in ((plain, 2), (compacted, 1)):
            player.wait_for(topic, partitions)
        look(player, "after", plain, compacted, session)
        player.reconnect()
        return player.asked
    finally:
        peer.kill()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_is_known_after_a_restart(how: str, kafka_jars: None, tmp_path: Path) -> None:
    def end(peer: Any) -> None:
        getattr(peer, how)()

    kafka = history(KafkaPeer(tmp_path / "kafka"), end)
    ottla = history(BrokerProcess(tmp_path / "ottla", ONE_NODE), end)
    scenario = Scenario(f"restart by {how}", lambda _: None, 0)
    found = list(differences(scenario, kafka, ottla))
    left = [one for one in found if not any(excuse.covers(one) for excuse in DELIBERATE)]
    assert not left, "\n".join(map(str, left))
    expected = [excuse for excuse in DELIBERATE if scenario.name.startswith(excuse.scenario)]
    unused = [excuse for excuse in expected if not any(excuse.covers(one) for one in found)]
    assert not unused, f"these no longer differ: {unused}"
