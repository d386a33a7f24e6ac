"""The start of a broker whose controller is another node: what it knows when it opens its logs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from ottla.base.ids import TopicPartition
from ottla.base.promise import Promise
from ottla.node.build import Node
from ottla.node.settings.config import assemble
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dirs import LogDirs
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.node.quorum.test_replica import free_ports

BROKER_RESOURCE = 4
LOG = TopicPartition("latest", 0)


def make_node(folder: Path, port: int, node_id: int, **settings: str) -> Node:
    common = {
        "node.id": str(node_id),
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
        "log.dirs": str(folder / f"node{node_id}"),
    }
    return Node(assemble({**common, **settings}, {}), structlog.get_logger())


async def restart_broker(folder: Path, change: Callable[[Node], None]) -> None:
    """Start a controller and a broker, change settings, start the broker again and call `change` with it."""
    (port,) = free_ports(1)
    controller = make_node(
        folder, port, 1, **{"process.roles": "controller", "listeners": f"CONTROLLER://127.0.0.1:{port}"}
    )
    role = {"process.roles": "broker", "listeners": "PLAINTEXT://127.0.0.1:0"}
    broker = make_node(folder, port, 2, **role)
    await asyncio.gather(controller.start(), broker.start())
    api = controller._metadata.controller
    compacted = [CreatableTopicConfig("cleanup.policy", "compact")]
    topic = CreatableTopic(name=LOG.topic, num_partitions=1, replication_factor=1, configs=compacted)
    created = await api.create_topics(CreateTopicsRequest(topics=[topic]))
    assert created.topics[0].error_code == 0
    limit = AlterConfigsResource(BROKER_RESOURCE, "", [AlterableConfig("max.connections", 0, "77")])
    altered = await api.incremental_alter_configs(IncrementalAlterConfigsRequest([limit]))
    assert altered.responses[0].error_code == 0
    await broker.stop()
    again = make_node(folder, port, 2, **role)
    await again.start()
    change(again)
    await again.stop()
    await controller.stop()


def test_logs_are_opened_with_the_settings_of_their_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recovery takes a gap between two segments for damage, unless the topic is compacted."""
    compacted: list[bool] = []
    load = LogDirs.load

    def loading(
        self: LogDirs, config_for: Callable[[TopicPartition], LogConfig], now_ms: int
    ) -> Promise[None]:
        compacted.append(config_for(LOG).compacted)
        return load(self, config_for, now_ms)

    monkeypatch.setattr(LogDirs, "load", loading)
    asyncio.run(asyncio.wait_for(restart_broker(tmp_path, lambda _: None), 60))
    assert compacted == [False, True]


def test_dynamic_settings_hold_after_a_restart(tmp_path: Path) -> None:
    limits: list[int] = []

    def look(node: Node) -> None:
        assert node.broker is not None
        limits.append(node.broker._edge.limits.connections_max)

    asyncio.run(asyncio.wait_for(restart_broker(tmp_path, look), 60))
    assert limits == [77]


@pytest.mark.parametrize(
    ("selector", "releases"),
    [
        ("", True),
        ("org.apache.kafka.common.replica.LeaderSelector", True),
        ("org.apache.kafka.common.replica.RackAwareReplicaSelector", False),
    ],
)
def test_followed_logs_stay_in_the_page_cache_if_consumers_read_from_followers(
    tmp_path: Path, selector: str, releases: bool
) -> None:
    async def start() -> None:
        settings = {"node.id": "1", "log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0"}
        if selector:
            settings["replica.selector.class"] = selector
        node = Node(assemble(settings, {}), structlog.get_logger())
        await node.start()
        assert node.broker is not None
        assert (node.broker._group_commit._cache_release is not None) is releases
        await node.stop()

    asyncio.run(asyncio.wait_for(start(), 60))
