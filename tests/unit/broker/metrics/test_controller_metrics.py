"""The metrics of a node that is a controller only."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.controller_metrics import ControllerMetrics
from ottla.broker.metrics.node_metrics import RaftState
from ottla.metadata.image import MetadataImage


def test_a_controller_has_its_role_the_quorum_connections_and_its_process() -> None:
    connection: Any = SimpleNamespace(listener=SimpleNamespace(name="CONTROLLER"))
    metrics = ControllerMetrics(
        3, MetadataImage, lambda: RaftState(3, 5, "leader", 10, 12), lambda: [connection]
    )

    async def scrape() -> str:
        await metrics.prepare()
        return "".join(metrics.write())

    text = asyncio.run(scrape())
    found = {
        sample.name: (sample.labels, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert found["kafka_controller_kafkacontroller_activecontrollercount"] == ({}, 1)
    assert found["kafka_server_raftmetrics_current_state"] == ({"current_state": "leader"}, 1)
    assert found["kafka_server_raftmetrics_append_records_rate"] == ({}, 0)
    count = found["kafka_server_socket_server_metrics_connection_count"]
    assert count == ({"listener": "CONTROLLER", "networkProcessor": "0"}, 1)
    assert found["process_open_fds"][1] > 0
