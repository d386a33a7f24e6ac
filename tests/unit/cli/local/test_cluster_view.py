"""Tables and lines about a cluster."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from ottla.base.ids import TopicPartition
from ottla.cli.local.cluster_view import BrokerState, PartitionState, Snapshot, changes, draw

SCORES = TopicPartition("scores", 0)


def snapshot(states: tuple[str, ...], partition: PartitionState, controller: int | None = 0) -> Snapshot:
    brokers = tuple(
        BrokerState(i, f"127.0.0.1:{9092 + i}", "R1", state, 1234.0) for i, state in enumerate(states)
    )
    return Snapshot(brokers, {SCORES: partition}, controller)


HEALTHY = snapshot(("running",) * 3, PartitionState(1, (1, 2, 0), (0, 1, 2)))
AFTER_KILL = snapshot(("running", "killed", "running"), PartitionState(2, (1, 2, 0), (0, 2)), 2)


def test_the_roles_of_a_broker_are_counted() -> None:
    assert [HEALTHY.leads(node_id) for node_id in range(3)] == [0, 1, 0]
    assert [HEALTHY.follows(node_id, in_sync=True) for node_id in range(3)] == [1, 0, 1]
    assert [AFTER_KILL.follows(node_id, in_sync=False) for node_id in range(3)] == [0, 1, 0]


def test_each_change_is_one_line() -> None:
    assert list(changes(HEALTHY, HEALTHY)) == []
    assert list(changes(HEALTHY, AFTER_KILL)) == [
        "broker 1: killed",
        "active controller: broker 2",
        "partition scores-0: leader 2, in sync 0 2",
    ]


def test_a_partition_without_a_leader_and_a_deleted_one_are_reported() -> None:
    lost = snapshot(("killed",) * 3, PartitionState(-1, (1, 2, 0), ()), None)
    assert list(changes(AFTER_KILL, lost)) == [
        "broker 0: killed",
        "broker 2: killed",
        "partition scores-0: leader none, in sync none",
    ]
    assert list(changes(HEALTHY, Snapshot(HEALTHY.brokers, {}, 0))) == ["partition scores-0: deleted"]


def test_the_tables_show_states_leaders_and_replicas() -> None:
    console = Console(file=io.StringIO(), width=140, height=40, record=True)
    console.print(draw(AFTER_KILL, 1, "broker 1: killed"))
    text = console.export_text()
    assert "> 1" in text
    assert "running, active controller" in text
    assert "1,234" in text
    (row,) = [line for line in text.splitlines() if "scores-0" in line]
    assert [cell.strip() for cell in row.strip("│").split("│")] == ["scores-0", "2", "1 2 0", "0 2"]


def test_partitions_with_missing_replicas_are_shown_first() -> None:
    whole = PartitionState(0, (0, 1), (0, 1))
    many = {TopicPartition("a", number): whole for number in range(30)}
    many[TopicPartition("z", 0)] = PartitionState(0, (0, 1), (0,))
    console = Console(file=io.StringIO(), width=140, height=40, record=True)
    console.print(draw(Snapshot((), many, None), None, ""))
    text = console.export_text()
    assert "z-0" in text
    assert "and 19 more" in text


def test_states_and_headers_are_readable_on_a_narrow_terminal() -> None:
    console = Console(file=io.StringIO(), width=60, height=40, record=True)
    console.print(draw(AFTER_KILL, 1, ""))
    text = console.export_text().split("Partitions")[0]
    for word in ("running", "killed", "controller", "follows", "leads", "offsets/s"):
        assert word in text
    assert max(map(len, text.splitlines())) <= 60


@pytest.mark.parametrize("width", range(90, 125, 5))
def test_the_table_of_brokers_fits_and_its_addresses_are_complete(width: int) -> None:
    brokers = tuple(replace(each, address=f"127.0.0.1:{24_592 + each.node_id}") for each in HEALTHY.brokers)
    console = Console(file=io.StringIO(), width=width, height=40, record=True)
    console.print(draw(Snapshot(brokers, {}, 0), 1, ""))
    lines = console.export_text().splitlines()
    assert "offsets/s" in " ".join(lines)
    rows = [line.rstrip() for line in lines if "1,234" in line]
    assert len(rows) == 3
    addresses = [each.address for each in brokers if each.address in "".join(rows)]
    assert addresses in ([], [each.address for each in brokers]), "all of them, or none on a narrow terminal"
    assert not any("…" in line for line in lines)
    assert all(row.endswith(("│", "1,234")) for row in rows)
    assert bool(addresses) == rows[0].endswith("│")


@pytest.mark.parametrize("width", range(80, 125, 5))
def test_whether_a_terminal_is_narrow_does_not_depend_on_the_controller(width: int) -> None:
    narrow = set()
    for controller in (0, None):
        console = Console(file=io.StringIO(), width=width, height=40, record=True)
        console.print(draw(Snapshot(HEALTHY.brokers, {}, controller), 1, ""))
        narrow.add(HEALTHY.brokers[0].address not in console.export_text())
    assert len(narrow) == 1


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 24), (60, 20), (40, 12)])
def test_the_keys_and_the_last_action_are_visible_however_many_partitions_exist(
    width: int, height: int
) -> None:
    whole = PartitionState(0, (0, 1, 2), (0, 1, 2))
    many = {TopicPartition("__consumer_offsets", number): whole for number in range(50)}
    console = Console(file=io.StringIO(), width=width, height=height, record=True)
    console.print(draw(Snapshot(HEALTHY.brokers, many, 0), 1, "broker 1: killed"))
    lines = console.export_text().splitlines()
    assert len(lines) <= height
    assert lines[-1].rstrip() == "broker 1: killed"
    assert "quit" in " ".join(lines[-4:])


def test_partitions_of_users_are_shown_before_those_of_internal_topics_in_order() -> None:
    whole = PartitionState(0, (0, 1), (0, 1))
    many = {TopicPartition("__consumer_offsets", number): whole for number in range(50)}
    many |= {TopicPartition("scores", number): whole for number in (10, 2)}
    console = Console(file=io.StringIO(), width=140, height=40, record=True)
    console.print(draw(Snapshot((), many, None), None, ""))
    shown = re.findall(r"(\S+-\d+) ", console.export_text())
    assert shown[:3] == ["scores-2", "scores-10", "__consumer_offsets-0"]
