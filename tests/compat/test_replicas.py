"""Apache Kafka's tools read every replica of a cluster."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.testing.cluster import Cluster
from tests.compat.java_tools import JavaTools

pytestmark = pytest.mark.compat
RECORDS = 3000


def test_dump_log_reads_every_replica(tools: JavaTools, tmp_path: Path) -> None:
    with Cluster(brokers=3, data=tmp_path, proxies=False) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("copied", 1, 3, config={"index.interval.bytes": "500"})])[
            "copied"
        ].result(60)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "batch.size": 2000})
        for number in range(RECORDS):
            producer.produce("copied", b"%d" % number * 20)
        assert producer.flush(60) == 0
    for node_id in range(3):
        folder = tmp_path / f"broker-{node_id}" / "copied-0"
        dumped = ""
        for file in sorted(folder.glob("*.log")):
            dumped += tools.good("kafka-dump-log", "--deep-iteration", "--files", str(file)).out
        assert len(re.findall(r"^\| offset: ", dumped, re.MULTILINE)) == RECORDS
        assert "isvalid: false" not in dumped
        for file in [*folder.glob("*.index"), *folder.glob("*.timeindex")]:
            ran = tools.good("kafka-dump-log", "--index-sanity-check", "--files", str(file))
            assert "passed sanity check" in ran.out
