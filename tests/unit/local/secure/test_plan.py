"""Addresses and settings of the nodes of a secured cluster."""

from __future__ import annotations

from pathlib import Path

from ottla.local.secure.plan import plan_nodes


def test_one_node_on_this_machine() -> None:
    addresses, (plan,) = plan_nodes(["localhost"], 9092, Path("data"))
    assert addresses == ["localhost:9092"]
    assert plan.hosts == ("localhost", "127.0.0.1")
    assert plan.settings["listeners"] == (
        "CLIENTS://localhost:9092,NODES://localhost:9093,CONTROLLER://localhost:9094"
    )
    assert plan.settings["controller.quorum.voters"] == "0@localhost:9094"
    assert (plan.settings["log.dirs"], plan.settings["min.insync.replicas"]) == ("data", "1")


def test_nodes_on_one_host_have_different_ports_and_directories() -> None:
    addresses, plans = plan_nodes(["localhost"] * 3, 1000, Path("data"))
    assert addresses == ["localhost:1000", "localhost:1003", "localhost:1006"]
    ports = [part.rpartition(":")[2] for each in plans for part in each.settings["listeners"].split(",")]
    assert len(set(ports)) == 9
    assert [each.settings["log.dirs"] for each in plans] == ["data/node-0", "data/node-1", "data/node-2"]
    assert {each.settings["min.insync.replicas"] for each in plans} == {"2"}


def test_nodes_on_four_hosts_have_the_same_ports_and_three_voters() -> None:
    addresses, plans = plan_nodes(["a", "b", "::1", "d"], 9092, Path("data"))
    assert addresses == ["a:9092", "b:9092", "[::1]:9092", "d:9092"]
    assert plans[0].settings["controller.quorum.voters"] == "0@a:9094,1@b:9094,2@[::1]:9094"
    assert plans[3].settings["process.roles"] == "broker"
    assert plans[3].settings["listeners"] == "CLIENTS://d:9092,NODES://d:9093"
    assert plans[2].hosts == ("::1",)
