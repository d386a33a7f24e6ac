"""Metadata directories travel between Apache Kafka and Ottla, and Kafka's own dump tool reads ours."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import uuid
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from bench.kafka_jars import java
from bench.peers import KafkaPeer
from ottla.base.clock import SystemClock
from ottla.base.files import OsDisk
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataImage
from ottla.node.quorum.metadata import open_metadata
from ottla.quorum.quorum import ListenerAddress
from ottla.storage.checkpoints import read_meta_properties
from ottla.testing.executor import InlineExecutor
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.support.clients import TIMEOUT_S, create_topic
from tests.support.registration import register, registration

LIBS = Path(__file__).parents[2] / ".bench/kafka/libs"

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(not LIBS.is_dir(), reason="needs Apache Kafka's jars (make bench fetches them)"),
]


async def one_life(peer: KafkaPeer, new_topics: list[str], snapshot_bytes: int = 1 << 30) -> MetadataImage:
    """Open the peer's directory as a node of ours, create topics, and close it again."""
    meta = read_meta_properties(OsDisk(), f"{peer.data}/meta.properties")
    assert meta is not None
    assert meta.directory_id is not None
    node = open_metadata(
        OsDisk(),
        str(peer.data),
        config=BrokerConfig(
            {"node.id": "1", "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes)}
        ),
        node_id=1,
        directory_id=meta.directory_id,
        controller_listeners=[ListenerAddress("CONTROLLER", "127.0.0.1", peer.controller_port)],
        clock=SystemClock(),
        rng=random.Random(),
        executor=InlineExecutor(),
        defer=asyncio.get_running_loop().call_soon,
        on_fault=lambda error: pytest.fail(str(error)),
    )
    await node.start()
    await register(node.controller, registration(1, uuid.uuid4(), meta.directory_id, peer.port))
    for name in new_topics:
        topic = CreatableTopic(
            name=name,
            num_partitions=2,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="retention.ms", value="77")],
        )
        response = await node.controller.create_topics(CreateTopicsRequest(topics=[topic]))
        assert response.topics[0].error_code == 0
    node.close()
    return node.publisher.image


def dump(*files: Path) -> str:
    names = ",".join(map(str, files))
    tool = [*java("org.apache.kafka.tools.DumpLogSegments"), "--cluster-metadata-decoder", "--files", names]
    return subprocess.run(tool, check=True, capture_output=True, text=True).stdout


def test_a_directory_can_be_moved_to_ottla_and_back(tmp_path: Path) -> None:
    peer = KafkaPeer(tmp_path / "data")
    with peer:
        create_topic(peer.bootstrap, "from-kafka", 3, {"cleanup.policy": "compact"})
    image = asyncio.run(one_life(peer, [f"from-ottla-{n}" for n in range(60)], 8_000))
    assert len(image.topics.by_name["from-kafka"].partitions) == 3
    assert image.config(2, "from-kafka") == {"cleanup.policy": "compact"}
    assert image.metadata_version == 30
    partition = image.topics.by_name["from-kafka"].partitions[0]
    assert (partition.leader, partition.isr) == (1, (1,))

    directory = peer.data / "__cluster_metadata-0"
    assert len(list(directory.glob("*.checkpoint"))) == 2
    text = dump(*directory.glob("*.log"), *directory.glob("*.checkpoint"), peer.data / "bootstrap.checkpoint")
    records = [
        json.loads(line.partition("payload: ")[2]) for line in text.splitlines() if "payload: " in line
    ]
    assert "from-ottla-59" in {r["data"]["name"] for r in records if r["type"] == "TOPIC_RECORD"}
    assert "isvalid: false" not in text
    assert "KRaftVoters" in text

    with peer:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap})
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
        assert {"from-kafka", "from-ottla-0", "from-ottla-59"} <= set(topics)
        assert len(topics["from-ottla-7"].partitions) == 2
        create_topic(peer.bootstrap, "from-kafka-again")
    assert "from-kafka-again" in asyncio.run(one_life(peer, [])).topics.by_name
    assert "LeaderChange" in dump(*sorted(directory.glob("*.log"))[-1:])
