from __future__ import annotations

import asyncio
import random
import uuid
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.base.files import OsDisk
from ottla.config.broker import BrokerConfig
from ottla.metadata.record_codec import encode_record
from ottla.metadata.records import FeatureLevelRecord
from ottla.metadata.snapshot import digest
from ottla.node.quorum.metadata import MetadataNode, open_metadata
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.snapshots import encode_snapshot
from ottla.testing.executor import InlineExecutor
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.quorum import FixedClock
from tests.support.registration import register, registration

DIRECTORY_ID = uuid.UUID(int=1012)


def opened(root: Path, life: int = 1, **settings: str) -> MetadataNode:
    return open_metadata(
        OsDisk(),
        str(root),
        config=BrokerConfig({"node.id": "1", **{k.replace("_", "."): v for k, v in settings.items()}}),
        node_id=1,
        directory_id=DIRECTORY_ID,
        controller_listeners=[ListenerAddress("CONTROLLER", "localhost", 9093)],
        clock=FixedClock(),
        rng=random.Random(life),
        executor=InlineExecutor(),
        defer=asyncio.get_running_loop().call_soon,
        on_fault=lambda error: pytest.fail(str(error)),
    )


async def start(node: MetadataNode, life: int) -> int:
    await node.start()
    return await register(node.controller, registration(1, uuid.UUID(int=life), DIRECTORY_ID))


async def create(node: MetadataNode, name: str, partitions: int = 2) -> None:
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = await node.controller.create_topics(CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == 0


def test_acknowledged_records_are_there_after_a_restart(tmp_path: Path) -> None:
    async def lives() -> None:
        epochs = []
        for life in (1, 2, 3):
            node = opened(tmp_path, life)
            epochs.append(await start(node, life))
            await create(node, f"t{life}")
            node.close()
        image = node.publisher.image
        assert list(image.topics.by_name) == ["t1", "t2", "t3"]
        assert epochs == sorted(set(epochs))
        # Each new life loses leadership by its registration and leads again under a new epoch.
        assert image.topics.by_name["t1"].partitions[1].leader_epoch == 4
        assert image.topics.by_name["t3"].partitions[1].leader_epoch == 0
        assert image.config(4, "") == {"min.insync.replicas": "1"}
        assert image.brokers[1].active

    asyncio.run(lives())


def test_snapshots_do_not_change_what_is_found(tmp_path: Path) -> None:
    async def lives() -> None:
        setting = {"metadata_log_max_record_bytes_between_snapshots": "2000"}
        node = opened(tmp_path, 1, **setting)
        await start(node, 1)
        for number in range(40):
            await create(node, f"t{number}")
        image = node.publisher.image
        node.close()
        directory = tmp_path / "__cluster_metadata-0"
        assert len(list(directory.glob("*.checkpoint"))) == 2
        again = opened(tmp_path, 2)
        await again.controller.start()
        assert again.publisher.image.topics == image.topics
        assert list(again.publisher.image.topics.by_id) == list(image.topics.by_id)
        assert (again.publisher.image.configs, again.publisher.image.brokers) == (
            image.configs,
            image.brokers,
        )
        assert digest(again.publisher.image) != digest(image)  # one offset further: the leader change
        again.close()

    asyncio.run(lives())


def test_bootstrap_file_of_the_directory_decides_the_levels(tmp_path: Path) -> None:
    levels = [FeatureLevelRecord(name="metadata.version", feature_level=25)]
    values = [encode_record(record, 25) for record in levels]
    data = encode_snapshot(values, epoch=0, last_timestamp_ms=0, controls=(), now_ms=1)
    (tmp_path / "bootstrap.checkpoint").write_bytes(data)

    async def life() -> None:
        node = opened(tmp_path)
        await start(node, 1)
        await create(node, "t")
        assert dict(node.publisher.image.features) == {"metadata.version": 25}
        assert node.publisher.image.configs == {}
        node.close()

    asyncio.run(life())


def test_directory_of_another_voter_is_refused(tmp_path: Path) -> None:
    async def life() -> None:
        node = opened(tmp_path)
        await node.start()
        node.close()

    asyncio.run(life())
    with pytest.raises(LocalError, match="directory"):
        open_metadata(
            OsDisk(),
            str(tmp_path),
            config=BrokerConfig({"node.id": "1"}),
            node_id=1,
            directory_id=uuid.UUID(int=13),
            controller_listeners=[],
            clock=FixedClock(),
            rng=random.Random(1),
            executor=InlineExecutor(),
            defer=lambda callback: None,
            on_fault=lambda error: None,
        )
