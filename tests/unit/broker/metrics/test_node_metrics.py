"""Families about the node: sums, the controller, the quorum, times of requests, disks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.node_metrics import (
    LoopIdle,
    RaftRates,
    RaftState,
    connection_families,
    controller_families,
    disk_bytes,
    raft_families,
    replica_families,
    request_families,
)
from ottla.broker.metrics.request_times import RequestTimes


def parsed(pieces: Any) -> dict[str, dict[tuple[str, ...], float]]:
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families("".join(pieces)):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def only(found: dict[str, dict[tuple[str, ...], float]], prefix: str) -> dict[str, float]:
    """The series without labels, without the prefix of their names."""
    return {
        name.removeprefix(prefix): each[()]
        for name, each in found.items()
        if name.startswith(prefix) and () in each
    }


def test_replicas_are_counted() -> None:
    def partition(leads: bool, isr: int) -> Any:
        return SimpleNamespace(leads=leads, isr=range(isr), replicas=range(3), min_in_sync=2)

    found = parsed(replica_families([partition(True, 3), partition(True, 1), partition(False, 0)], 4))
    assert only(found, "kafka_server_replicamanager_") == {
        "leadercount": 2,
        "partitioncount": 3,
        "underreplicatedpartitions": 1,
        "underminisrpartitioncount": 1,
    }
    assert found["kafka_log_logmanager_offlinelogdirectorycount"] == {(): 4}


@pytest.mark.parametrize("active", [True, False])
def test_only_the_active_controller_counts(active: bool) -> None:
    topic = SimpleNamespace(partitions={0: SimpleNamespace(leader=-1), 1: SimpleNamespace(leader=2)})
    brokers = {1: SimpleNamespace(fenced=True), 2: SimpleNamespace(fenced=False)}
    image: Any = SimpleNamespace(topics=SimpleNamespace(by_id={1: topic}), brokers=brokers)
    found = parsed(controller_families(image, active=active, unclean_elections=7))
    assert only(found, "kafka_controller_kafkacontroller_") == {
        "activecontrollercount": active,
        "offlinepartitionscount": active,
        "activebrokercount": active,
        "fencedbrokercount": active,
        "globaltopiccount": active,
        "globalpartitioncount": 2 * active,
    }
    assert found["kafka_controller_controllerstats_uncleanleaderelections_total"] == {(): 7}


def test_the_quorum() -> None:
    found = parsed(raft_families(RaftState(3, 5, "follower", 10, 12)))
    assert only(found, "kafka_server_raftmetrics_") == {
        "current_leader": 3,
        "current_epoch": 5,
        "current_vote": -1,
        "high_watermark": 10,
        "log_end_offset": 12,
    }
    assert found["kafka_server_raftmetrics_current_state"] == {("follower",): 1}


def test_rates_of_the_metadata_log_are_those_between_two_scrapes() -> None:
    rates, second = RaftRates(), 1_000_000_000

    def scraped(state: str, end: int, now_ns: int) -> dict[str, float]:
        return only(
            parsed(rates.families(RaftState(3, 5, state, end, end), now_ns)), "kafka_server_raftmetrics_"
        )

    assert scraped("leader", 100, second) == {"append_records_rate": 0, "fetch_records_rate": 0}
    assert scraped("leader", 160, 3 * second) == {"append_records_rate": 30, "fetch_records_rate": 0}
    assert scraped("follower", 170, 4 * second) == {"append_records_rate": 0, "fetch_records_rate": 10}
    assert scraped("follower", 150, 5 * second) == {"append_records_rate": 0, "fetch_records_rate": 0}


def test_connections_by_listener() -> None:
    connections: Any = [SimpleNamespace(listener=SimpleNamespace(name=name)) for name in ("A", "B", "A")]
    name = "kafka_server_socket_server_metrics_connection_count"
    assert parsed(connection_families(connections))[name] == {("A", "0"): 2, ("B", "0"): 1}


def test_times_have_the_labels_of_the_jmx_exporter() -> None:
    times = RequestTimes(lambda: 0.0)
    times.record(0, 0.001)
    times.record(9999, 0.001)
    found = parsed(request_families(times))
    name = "kafka_network_requestmetrics_totaltimems"
    assert [key for key in found[name] if key[0] == "Produce"] == [
        ("Produce", share) for share in ("0.50", "0.75", "0.95", "0.98", "0.99", "0.999")
    ]
    assert found[f"{name}_count"] == {("Produce",): 1, ("9999",): 1}
    assert found["kafka_network_requestmetrics_requests_total"] == {("Produce",): 1, ("9999",): 1}


def test_the_share_of_idle_time_is_a_share() -> None:
    idle = LoopIdle()
    shares = {value for each in parsed(idle.families()).values() for value in each.values()}
    assert len(shares) == 1
    assert 0 <= shares.pop() <= 1


def test_disk_bytes() -> None:
    assert disk_bytes("rchar: 5\nread_bytes: 7\nwrite_bytes: 9\n") == {"read_bytes": 7, "write_bytes": 9}
    assert disk_bytes("") == {}
