"""A test cluster of Apache Kafka, to run tests of clusters on it: what fails there is wrong in the test."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.clusters import KafkaProcess
from ottla.local.broker_process import BrokerProcess
from ottla.testing import Cluster


class KafkaTestCluster(Cluster):
    def _process(self, node_id: int, folder: Path, settings: Mapping[str, str]) -> BrokerProcess:
        return KafkaProcess(folder, settings, port=self._ports[node_id].client)
