"""Clusters of several nodes in one run: their topology, and the checkers that compare replicas."""

from __future__ import annotations

import pytest

from ottla.base.rng import Random
from ottla.records.batch import read_header
from ottla.records.builder import NewRecord, build_batch
from ottla.testing.sim.checkers.durability import _contains
from ottla.testing.sim.checkers.logs import Batch
from ottla.testing.sim.topology import COMBINED, NodeSpec, choose_nodes, properties


def batch_bytes(base_offset: int, value: bytes) -> tuple[bytes, Batch]:
    data = bytes(build_batch([NewRecord(None, value)], base_offset=base_offset))
    header = read_header(data)
    return data, Batch(base_offset, base_offset + 1, header.partition_leader_epoch, header.crc)


# Topology


def test_a_seed_determines_the_nodes() -> None:
    assert choose_nodes(Random("a")) == choose_nodes(Random("a"))
    assert len({choose_nodes(Random(str(seed))) for seed in range(40)}) > 5


@pytest.mark.parametrize("brokers", [1, 3, 5])
def test_the_number_of_brokers_can_be_given(brokers: int) -> None:
    for seed in range(20):
        specs = choose_nodes(Random(str(seed)), brokers)
        assert sum(spec.is_broker for spec in specs) == brokers
        assert sum(spec.is_voter for spec in specs) in (1, 3, 5)
        assert len({spec.node_id for spec in specs}) == len(specs)


def test_all_nodes_have_the_same_voters() -> None:
    specs = (NodeSpec(1, ("broker",)), NodeSpec(100, ("controller",)), NodeSpec(2, COMBINED, "R1"))
    hosts = {1: "a", 100: "b", 2: "c"}
    found = [properties(spec, specs, hosts) for spec in specs]
    assert {each["controller.quorum.voters"] for each in found} == {"100@b:9093,2@c:9093"}
    assert found[0]["listeners"] == "PLAINTEXT://a:9092"
    assert found[1]["listeners"] == "CONTROLLER://b:9093"
    assert found[2]["broker.rack"] == "R1"


# Durability


def test_a_batch_is_found_in_the_bytes_of_a_segment() -> None:
    first, zero = batch_bytes(0, bytes(40))
    second, one = batch_bytes(1, b"one")
    other = batch_bytes(1, b"another")[1]
    assert _contains(first + second, zero)
    assert _contains(first + second, one)
    assert not _contains(first + second, other)
    assert not _contains(first, one)
    assert not _contains((first + second)[:-1], one)
