"""The settings of the brokers of a local cluster."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.local.cluster import BrokerPorts, LocalCluster, choose_voters, rack_of, voter_count
from ottla.local.secure.folder import SecureFolder

PORTS = [BrokerPorts(11_000 + i, 12_000 + i, 13_000 + i, 14_000 + i) for i in range(6)]


def settings_of(cluster: LocalCluster, node_id: int) -> dict[str, str]:
    command = cluster.brokers[node_id].command()
    pairs = [word for before, word in pairwise(command) if before == "--override"]
    return dict(pair.split("=", 1) for pair in pairs)


def test_every_broker_is_given_the_same_voters_at_their_advertised_addresses(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, 3, ports=PORTS[:3])
    voters = "0@127.0.0.1:14000,1@127.0.0.1:14001,2@127.0.0.1:14002"
    for node_id in range(3):
        settings = settings_of(cluster, node_id)
        assert settings["node.id"] == str(node_id)
        assert settings["controller.quorum.voters"] == voters
        assert settings["listeners"] == f"PLAINTEXT://127.0.0.1:{11_000 + node_id}," + (
            f"CONTROLLER://127.0.0.1:{12_000 + node_id}"
        )
        assert settings["advertised.listeners"] == f"PLAINTEXT://127.0.0.1:{13_000 + node_id}"
    assert cluster.bootstrap == "127.0.0.1:13000,127.0.0.1:13001,127.0.0.1:13002"


@pytest.mark.parametrize(
    ("brokers", "factor", "in_sync"), [(1, "1", None), (2, "2", None), (3, "3", "2"), (6, "3", "2")]
)
def test_topics_are_replicated_as_far_as_there_are_brokers(
    tmp_path: Path, brokers: int, factor: str, in_sync: str | None
) -> None:
    settings = settings_of(LocalCluster(tmp_path, brokers, ports=PORTS[:brokers]), 0)
    assert settings["default.replication.factor"] == factor
    assert settings.get("min.insync.replicas") == in_sync


def test_given_settings_have_precedence(tmp_path: Path) -> None:
    config = {"min.insync.replicas": "1", "num.partitions": "4"}
    settings = settings_of(LocalCluster(tmp_path, 3, config=config, ports=PORTS[:3]), 2)
    assert settings["min.insync.replicas"] == "1"
    assert settings["num.partitions"] == "4"


def test_racks_are_contiguous_blocks_of_brokers(tmp_path: Path) -> None:
    assert [rack_of(broker, 6, ["R1", "R2"]) for broker in range(6)] == ["R1"] * 3 + ["R2"] * 3
    assert [rack_of(broker, 3, ["R1", "R2"]) for broker in range(3)] == ["R1", "R1", "R2"]
    assert [rack_of(broker, 3, ["a", "b", "c"]) for broker in range(3)] == ["a", "b", "c"]
    assert rack_of(0, 3, []) is None
    cluster = LocalCluster(tmp_path, 6, racks=["R1", "R2"], ports=PORTS)
    assert settings_of(cluster, 3)["broker.rack"] == "R2"


def test_a_cluster_needs_a_broker_and_no_empty_rack(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one broker"):
        LocalCluster(tmp_path, 0)
    with pytest.raises(ValueError, match="2 racks need at least as many brokers, not 1"):
        LocalCluster(tmp_path, 1, racks=["R1", "R2"])


def test_an_odd_number_of_brokers_are_controllers(tmp_path: Path) -> None:
    assert [voter_count(brokers) for brokers in range(1, 9)] == [1, 1, 3, 3, 5, 5, 5, 5]
    cluster = LocalCluster(tmp_path, 4, ports=PORTS[:4])
    assert settings_of(cluster, 2)["process.roles"] == "broker,controller"
    broker_only = settings_of(cluster, 3)
    assert broker_only["process.roles"] == "broker"
    assert broker_only["listeners"] == "PLAINTEXT://127.0.0.1:11003"
    assert broker_only["controller.quorum.voters"] == settings_of(cluster, 0)["controller.quorum.voters"]


@pytest.mark.parametrize("brokers", range(3, 11))
@pytest.mark.parametrize("racks", [(), ("a", "b", "c"), ("a", "b", "c", "d")])
def test_no_rack_of_three_or_more_has_a_majority_of_the_controllers(
    tmp_path: Path, brokers: int, racks: tuple[str, ...]
) -> None:
    racks = racks[:brokers]
    voters = choose_voters(brokers, racks)
    assert len(voters) == voter_count(brokers)
    if not racks:
        assert voters == tuple(range(len(voters)))
    for rack in racks:
        assert 2 * sum(rack_of(voter, brokers, racks) == rack for voter in voters) < len(voters)


def test_the_controllers_of_a_cluster_are_those_that_are_named(tmp_path: Path) -> None:
    racks = ["R1", "R2", "R3"]
    assert LocalCluster(tmp_path, 4, racks=racks, ports=PORTS[:4]).voters == (0, 2, 3)
    named = LocalCluster(tmp_path, 4, racks=racks, ports=PORTS[:4], voters=(0, 1, 2))
    assert settings_of(named, 1)["process.roles"] == "broker,controller"
    assert settings_of(named, 3)["process.roles"] == "broker"


def test_no_credentials_are_created_for_a_cluster_that_exists(tmp_path: Path) -> None:
    """The cluster would keep the password of its first administrator."""
    data, secure = tmp_path / "data", SecureFolder(tmp_path / "secure")
    LocalCluster(data, 1, ports=PORTS[:1], secure=secure)
    (data / "broker-0").mkdir(parents=True)
    (data / "broker-0" / "meta.properties").touch()
    LocalCluster(data, 1, ports=PORTS[:1], secure=secure)
    secure.authority_certificate.unlink()
    with pytest.raises(LocalError, match=r"secure/ca\.pem does not exist.* restore "):
        LocalCluster(data, 1, ports=PORTS[:1], secure=secure)
