"""The endpoint of metrics: names and labels of well-known dashboards, values, clusters, and hostile requests."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from ottla.local.broker_process import BrokerProcess
from ottla.local.cluster import LocalCluster
from ottla.local.ports import free_port, free_ports

ROOT = Path(__file__).resolve().parents[3]
KAFKA_EXPORTER = {
    "kafka_brokers": set(),
    "kafka_broker_info": {"id", "address"},
    "kafka_topic_partitions": {"topic"},
    "kafka_topic_partition_current_offset": {"topic", "partition"},
    "kafka_topic_partition_oldest_offset": {"topic", "partition"},
    "kafka_topic_partition_leader": {"topic", "partition"},
    "kafka_topic_partition_replicas": {"topic", "partition"},
    "kafka_topic_partition_in_sync_replica": {"topic", "partition"},
    "kafka_topic_partition_leader_is_preferred": {"topic", "partition"},
    "kafka_topic_partition_under_replicated_partition": {"topic", "partition"},
    "kafka_consumergroup_current_offset": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_lag": {"consumergroup", "topic", "partition"},
    "kafka_consumergroup_current_offset_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_lag_sum": {"consumergroup", "topic"},
    "kafka_consumergroup_members": {"consumergroup"},
}
"""What kafka_exporter exposes; dashboard 7589 uses some of it."""
LAG_EXPORTER = {
    "kafka_consumergroup_group_lag_seconds": {"cluster_name", "group", "topic", "partition"},
    "kafka_consumergroup_group_max_lag_seconds": {"cluster_name", "group"},
}
STRIMZI = {
    "kafka_server_brokertopicmetrics_messagesin_total": {"topic"},
    "kafka_server_brokertopicmetrics_bytesin_total": {"topic"},
    "kafka_server_brokertopicmetrics_bytesout_total": {"topic"},
    "kafka_server_brokertopicmetrics_totalproducerequests_total": {"topic"},
    "kafka_server_brokertopicmetrics_totalfetchrequests_total": {"topic"},
    "kafka_server_brokertopicmetrics_failedproducerequests_total": {"topic"},
    "kafka_server_brokertopicmetrics_failedfetchrequests_total": {"topic"},
    "kafka_server_replicamanager_leadercount": set(),
    "kafka_server_replicamanager_partitioncount": set(),
    "kafka_server_replicamanager_underreplicatedpartitions": set(),
    "kafka_server_replicamanager_underminisrpartitioncount": set(),
    "kafka_log_log_size": {"topic", "partition"},
    "kafka_cluster_partition_atminisr": {"topic", "partition"},
    "kafka_cluster_partition_underminisr": {"topic", "partition"},
    "kafka_cluster_partition_replicascount": {"topic", "partition"},
    "kafka_controller_kafkacontroller_activecontrollercount": set(),
    "kafka_controller_kafkacontroller_offlinepartitionscount": set(),
    "kafka_controller_controllerstats_uncleanleaderelections_total": set(),
    "kafka_log_logmanager_offlinelogdirectorycount": set(),
    "kafka_server_socket_server_metrics_connection_count": {"listener", "networkProcessor"},
    "kafka_network_socketserver_networkprocessoravgidle_percent": set(),
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": set(),
    "kafka_server_kafkaserver_linux_disk_read_bytes": set(),
    "kafka_server_kafkaserver_linux_disk_write_bytes": set(),
    "process_open_fds": set(),
    "ottla_event_loop_tasks": set(),
    "kafka_server_raftmetrics_current_leader": set(),
    "kafka_server_raftmetrics_current_epoch": set(),
    "kafka_server_raftmetrics_current_vote": set(),
    "kafka_server_raftmetrics_current_state": {"current_state"},
    "kafka_server_raftmetrics_high_watermark": set(),
    "kafka_server_raftmetrics_log_end_offset": set(),
    "kafka_server_raftmetrics_append_records_rate": set(),
    "kafka_server_raftmetrics_fetch_records_rate": set(),
    "kafka_network_requestmetrics_totaltimems": {"request", "quantile"},
}
"""What the dashboards of Strimzi use for brokers and quorum, without Java and containers; tasks are for `make soak`."""


@dataclass
class Scraped:
    """The samples of one scrape, by name."""

    samples: dict[str, list[tuple[dict[str, str], float]]] = field(default_factory=dict)

    @classmethod
    def of(cls, port: int) -> Scraped:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
            assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            text = response.read().decode()
        made = cls()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                made.samples.setdefault(sample.name, []).append((sample.labels, sample.value))
        return made

    def value(self, name: str, **labels: str) -> float:
        """The value of the only series with these labels."""
        (found,) = self.values(name, **labels)
        return found

    def values(self, name: str, **labels: str) -> list[float]:
        wanted = labels.items()
        return [value for theirs, value in self.samples.get(name, []) if wanted <= theirs.items()]


@dataclass
class Measured:
    broker: BrokerProcess
    port: int

    def scrape(self) -> Scraped:
        return Scraped.of(self.port)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    port = free_port()
    settings = {
        "ottla.metrics.port": str(port),
        "group.initial.rebalance.delay.ms": "0",
        "num.partitions": "1",
    }
    with BrokerProcess(tmp_path_factory.mktemp("metrics") / "data", settings) as broker:
        yield Measured(broker, port)


def send(bootstrap: str, topic: str, count: int, timestamp: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(count):
        producer.produce(topic, f"{number}", timestamp=timestamp)
        producer.flush()


def read(bootstrap: str, topic: str, group: str, count: int, commit: int) -> None:
    """Read so many records and commit an offset."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    seen = 0
    while seen < count:
        message = consumer.poll(0.1)
        seen += message is not None and message.error() is None
    consumer.commit(offsets=[TopicPartition(topic, 0, commit)], asynchronous=False)
    consumer.close()


def test_the_names_and_labels_of_dashboards_are_there(measured: Measured) -> None:
    send(measured.broker.bootstrap, "named", 2)
    read(measured.broker.bootstrap, "named", "readers", 2, 1)
    found = measured.scrape().samples
    wanted = {**KAFKA_EXPORTER, **LAG_EXPORTER, **STRIMZI}
    assert {name: set(found[name][0][0]) if name in found else None for name in wanted} == wanted


def test_counters_follow_produce_and_fetch(measured: Measured) -> None:
    topic = "counted"
    send(measured.broker.bootstrap, topic, 10)
    before = measured.scrape()
    read(measured.broker.bootstrap, topic, "counting", 10, 10)
    after = measured.scrape()
    prefix = "kafka_server_brokertopicmetrics"
    assert after.value(f"{prefix}_messagesin_total", topic=topic) == 10
    assert after.value(f"{prefix}_totalproducerequests_total", topic=topic) == 10
    assert after.value(f"{prefix}_failedproducerequests_total", topic=topic) == 0
    size = after.value("kafka_log_log_size", topic=topic, partition="0")
    assert after.value(f"{prefix}_bytesin_total", topic=topic) == size
    assert before.value(f"{prefix}_bytesout_total", topic=topic) == 0
    assert after.value(f"{prefix}_bytesout_total", topic=topic) >= size
    assert after.value(f"{prefix}_totalfetchrequests_total", topic=topic) > 0
    assert after.value("kafka_topic_partition_current_offset", topic=topic, partition="0") == 10
    quantiles = after.values("kafka_network_requestmetrics_totaltimems", request="Produce")
    assert quantiles == sorted(quantiles)
    assert after.value("kafka_network_requestmetrics_totaltimems_count", request="Produce") >= 10


def test_lag_is_in_records_and_in_seconds(measured: Measured) -> None:
    topic, group = "behind", "slow"
    long_ago_ms = 1_000_000_000_000
    send(measured.broker.bootstrap, topic, 3, timestamp=long_ago_ms)
    read(measured.broker.bootstrap, topic, group, 3, 1)
    scraped = measured.scrape()
    assert scraped.value("kafka_consumergroup_lag", consumergroup=group, topic=topic) == 2
    assert scraped.value("kafka_consumergroup_lag_sum", consumergroup=group, topic=topic) == 2
    assert scraped.value("kafka_consumergroup_members", consumergroup=group) == 0
    seconds = scraped.value("kafka_consumergroup_group_lag_seconds", group=group, topic=topic)
    assert seconds > 700_000_000
    assert scraped.value("kafka_consumergroup_group_max_lag_seconds", group=group) == seconds
    read(measured.broker.bootstrap, topic, group, 2, 3)
    caught_up = measured.scrape()
    assert caught_up.value("kafka_consumergroup_lag", consumergroup=group, topic=topic) == 0
    assert caught_up.value("kafka_consumergroup_group_lag_seconds", group=group, topic=topic) == 0


@pytest.mark.parametrize(
    ("request_text", "status"),
    [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n", "403"),
        ("GET /metrics HTTP/1.1\r\n\r\n", "403"),
        ("nonsense\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /metrics HTTP/1.1\r\n" + "x" * 9000, "431"),
        ("GET /metrics?a=b HTTP/1.1\r\nHost: 127.0.0.1:1\r\n\r\n", "200"),
    ],
)
def test_other_requests_are_refused(measured: Measured, request_text: str, status: str) -> None:
    with socket.create_connection(("127.0.0.1", measured.port), 60) as connection:
        connection.sendall(request_text.encode())
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.split()[1] == status.encode()


def test_without_a_port_nothing_is_served_and_telemetry_is_not_listed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        assert "metrics are served" not in broker.output()


def test_a_port_in_use_ends_the_start_with_a_message(measured: Measured, tmp_path: Path) -> None:
    other = BrokerProcess(tmp_path / "data", {"ottla.metrics.port": str(measured.port)})
    with pytest.raises(RuntimeError, match=f"metrics: cannot listen on 127.0.0.1:{measured.port}"):
        other.start()


class _MeasuredCluster(LocalCluster):
    def __init__(self, data: Path, metrics_ports: list[int]) -> None:
        self._metrics_ports = metrics_ports
        super().__init__(data, len(metrics_ports), config={"group.initial.rebalance.delay.ms": "0"})

    def _settings(self, node_id: int, brokers: int, voters: str) -> dict[str, str]:
        port = str(self._metrics_ports[node_id])
        return {**super()._settings(node_id, brokers, voters), "ottla.metrics.port": port}


def test_each_series_of_a_cluster_is_on_one_broker(tmp_path: Path) -> None:
    ports = free_ports(3)
    with _MeasuredCluster(tmp_path, ports) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for created in admin.create_topics([NewTopic("spread", 6, 3)]).values():
            created.result()
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        for partition in range(6):
            producer.produce("spread", "x", partition=partition, timestamp=1_000)
        producer.flush()
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "all"}
        consumer = Consumer({**settings, "enable.auto.commit": False})
        consumer.commit(offsets=[TopicPartition("spread", p, 0) for p in range(6)], asynchronous=False)
        consumer.close()
        scrapes = [Scraped.of(port) for port in ports]
    for name in ("kafka_topic_partition_current_offset", "kafka_cluster_partition_atminisr"):
        assert sum(len(each.values(name, topic="spread")) for each in scrapes) == 6
    assert [sum(each.values("kafka_brokers")) for each in scrapes] == [3, 0, 0]
    assert sum(sum(each.values("kafka_topic_partitions", topic="spread")) for each in scrapes) == 6
    active = "kafka_controller_kafkacontroller_activecontrollercount"
    assert sorted(each.value(active) for each in scrapes) == [0, 0, 1]
    # One broker coordinates the group; most of the partitions are led by others.
    lags = [each.values("kafka_consumergroup_lag", consumergroup="all") for each in scrapes]
    assert sorted(map(len, lags)) == [0, 0, 6]
    assert sum(map(sum, lags)) == 6
    ages = [each.values("kafka_consumergroup_group_lag_seconds", group="all") for each in scrapes]
    assert sorted(map(len, ages)) == [0, 0, 6]
    assert min(max(ages)) > 1_000_000
    states = [
        label["current_state"]
        for each in scrapes
        for label, _ in each.samples["kafka_server_raftmetrics_current_state"]
    ]
    assert sorted(states) == ["follower", "follower", "leader"]


def test_a_node_that_is_a_controller_only_has_an_endpoint(tmp_path: Path) -> None:
    controller_port, port, metrics_port = free_ports(3)
    quorum = {"controller.quorum.voters": f"1@127.0.0.1:{controller_port}"}
    roles = {"node.id": "1", "process.roles": "controller", "ottla.metrics.port": str(metrics_port)}
    listeners = {"listeners": f"CONTROLLER://127.0.0.1:{controller_port}"}
    controller = BrokerProcess(tmp_path / "controller", {**quorum, **roles, **listeners})
    broker = BrokerProcess(
        tmp_path / "broker", {**quorum, "node.id": "2", "process.roles": "broker"}, port=port
    )
    with controller, broker:
        send(broker.bootstrap, "any", 1)
        found = Scraped.of(metrics_port)
    assert found.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert found.value("kafka_controller_kafkacontroller_activebrokercount") == 1
    assert found.value("kafka_server_raftmetrics_current_state", current_state="leader") == 1
    assert found.value("kafka_server_raftmetrics_high_watermark") > 1
    assert found.values("kafka_server_socket_server_metrics_connection_count", listener="CONTROLLER")
    assert "kafka_server_replicamanager_partitioncount" not in found.samples


def test_our_dashboard_uses_only_what_is_exposed(measured: Measured) -> None:
    send(measured.broker.bootstrap, "shown", 1)
    read(measured.broker.bootstrap, "shown", "shown", 1, 1)
    dashboard = json.loads((ROOT / "examples" / "grafana" / "ottla.json").read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [
        each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"
    ]
    used = {name for text in expressions for name in re.findall(r"\b(?:kafka|process)_\w+", text)}
    assert len(used) > 15
    assert used - set(measured.scrape().samples) == set()
