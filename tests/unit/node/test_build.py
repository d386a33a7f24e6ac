"""The order of the start: what a node does by which image."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import structlog
from msgspec.structs import replace

from ottla.base.errors import LocalError, StorageFault
from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.node.build import Node
from ottla.node.settings.config import NodeConfig, assemble
from ottla.replication.replicas import Replicas
from ottla.storage.log_dirs import LogDirs
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest


def config(directory: Path) -> NodeConfig:
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:9093",
        "log.dirs": str(directory),
    }
    return assemble(properties, {})


async def life(directory: Path, *, create: str) -> Node:
    node = Node(config(directory), structlog.get_logger())
    await node.start()
    topic = CreatableTopic(name=create, num_partitions=2, replication_factor=1)
    response = await node._metadata.controller.create_topics(CreateTopicsRequest(topics=[topic]))
    assert response.topics[0].error_code == 0
    await node.stop()
    return node


def _epoch(node: Node) -> int:
    assert node.broker is not None
    return node.broker.lifecycle.broker_epoch


def test_node_leads_and_sets_strays_aside_after_its_registration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asyncio.run(life(tmp_path, create="a"))
    (tmp_path / "stray-0").mkdir()
    order: list[str] = []
    images: list[MetadataImage] = []
    load, set_aside = Replicas.load, LogDirs.set_aside

    def loading(self: Replicas, image: MetadataImage) -> Promise[None]:
        order.append("lead")
        images.append(image)
        return load(self, image)

    def setting_aside(self: LogDirs, partitions: list[TopicPartition]) -> Promise[None]:
        order.extend(f"set aside {each}" for each in partitions)
        return set_aside(self, partitions)

    monkeypatch.setattr(Replicas, "load", loading)
    monkeypatch.setattr(LogDirs, "set_aside", setting_aside)
    second = asyncio.run(life(tmp_path, create="b"))
    assert order == ["lead", "set aside stray-0"]
    (image,) = images
    broker = image.brokers[1]
    assert broker.epoch == _epoch(second) > _epoch(first)
    assert broker.fenced, "replicas are open before the broker is unfenced"
    assert [each.leader for each in image.topics.by_name["a"].partitions.values()] == [NO_LEADER] * 2


async def fail_only_directory(directory: Path, brokers: int) -> bool:
    """Whether a node stops when its only log directory fails, in a cluster of some brokers."""
    node = Node(config(directory), structlog.get_logger())
    await node.start()
    publisher = node._metadata.publisher
    own = publisher.image.brokers[1]
    publisher.image = replace(publisher.image, brokers=dict.fromkeys(range(1, brokers + 1), own))
    node._log_dirs.fail(StorageFault(str(directory), OSError("gone")))
    stops = node.failed.done()
    await node.stop()
    return stops


@pytest.mark.parametrize(("brokers", "stops"), [(1, False), (2, True)])
def test_a_broker_without_log_directories_stops_if_others_can_take_over(
    tmp_path: Path, brokers: int, stops: bool
) -> None:
    assert asyncio.run(fail_only_directory(tmp_path, brokers)) is stops


async def fail_metadata_log(directory: Path) -> tuple[bool, float | None]:
    """Whether a node that is not alone stops when its metadata log fails, and its last acknowledged heartbeat."""
    node = Node(config(directory), structlog.get_logger())
    await node.start()
    assert node.broker is not None
    assert node.broker.lifecycle.acknowledged_at is not None
    node._alone = False
    node._metadata_failed(StorageFault(str(directory), OSError("gone")))
    stops, acknowledged_at = node.failed.done(), node.broker.lifecycle.acknowledged_at
    await node.stop()
    return stops, acknowledged_at


def test_a_broker_that_cannot_follow_the_metadata_stops_and_has_no_lease(tmp_path: Path) -> None:
    assert asyncio.run(fail_metadata_log(tmp_path)) == (True, None)


def test_the_worker_threads_have_ended_when_a_node_is_released(tmp_path: Path) -> None:
    """One that ended later would use a closed event loop and write a traceback to the log."""
    began, ended, released = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        released.wait(0.2)  # without a join, `release` returns before this
        ended.set()

    async def fail_to_start() -> bool:
        node = Node(config(tmp_path), structlog.get_logger())
        node._machine.executor.submit(work, lambda _: None)
        assert began.wait(10)
        node.release()
        released.set()
        return ended.is_set()

    assert asyncio.run(fail_to_start())


def test_a_new_node_is_refused_in_a_directory_that_contains_other_nodes(tmp_path: Path) -> None:
    """`ottla broker --data demo-data` must not found a second cluster beside the one of the demo."""

    async def start(directory: Path) -> None:
        node = Node(config(directory), structlog.get_logger())
        try:
            await node.start()
            await node.stop()
        except LocalError:
            node.release()
            raise

    other = tmp_path / "cluster" / "broker-0"
    asyncio.run(start(other))
    with pytest.raises(LocalError, match=rf"contains the directories of other brokers \({other}\)"):
        asyncio.run(start(tmp_path))
    assert not (tmp_path / "meta.properties").exists()
    (tmp_path / "new" / "lost+found").mkdir(parents=True)
    asyncio.run(start(tmp_path / "new"))
