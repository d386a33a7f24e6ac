"""kafka-consumer-groups of Apache Kafka 4.3.1 lists, describes, resets and deletes, unmodified."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.compat.groups.live import CLASSIC, CONSUMER, LiveGroup, commit
from tests.compat.java_tools import JavaTools, Ran
from tests.compat.tables import Row, rows
from tests.support.clients import Publisher, create_topic, fresh

pytestmark = pytest.mark.compat

PARTITIONS = 3
# Ten records in each partition; the time of record n is n minutes after this.
BEGIN_MS = 1_700_000_000_000
MINUTE_MS = 60_000

Tool = Callable[..., Ran]
PROTOCOLS = [pytest.param(CLASSIC, id="classic"), pytest.param(CONSUMER, id="consumer")]


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    # The times of the records lie in the past: retention must not take them.
    name = create_topic(broker.bootstrap, fresh("groups-tool"), PARTITIONS, {"retention.ms": "-1"})
    Publisher(broker.bootstrap).send(
        name,
        [
            {"value": b"%d" % n, "partition": part, "timestamp": BEGIN_MS + n * MINUTE_MS}
            for part in range(PARTITIONS)
            for n in range(10)
        ],
    )
    return name


@pytest.fixture
def tool(tools: JavaTools, broker: BrokerProcess) -> Tool:
    return lambda *arguments: tools.run(
        "kafka-consumer-groups", "--bootstrap-server", broker.bootstrap, *arguments
    )


def table(ran: Ran, first: str = "GROUP") -> list[Row]:
    assert ran.code == 0, ran.out + ran.err
    return rows(ran.out, first)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stable_group_is_listed_and_described(
    tool: Tool, broker: BrokerProcess, topic: str, protocol: dict[str, str]
) -> None:
    group = fresh("stable")
    kind = "Consumer" if protocol is CONSUMER else "Classic"
    other = "classic" if protocol is CONSUMER else "consumer"
    with LiveGroup(broker.bootstrap, group, topic, protocol):
        assert group in tool("--list").lines
        listed = table(tool("--list", "--state"))
        assert {"GROUP": group, "STATE": "Stable"} in listed
        assert group in [row["GROUP"] for row in table(tool("--list", "--state", "stable"))]
        assert group not in [row["GROUP"] for row in table(tool("--list", "--state", "Empty,Dead"))]
        assert {"GROUP": group, "TYPE": kind} in table(tool("--list", "--type"))
        assert group not in [row["GROUP"] for row in table(tool("--list", "--type", other))]

        described = table(tool("--describe", "--group", group))
        assert sorted(int(row["PARTITION"]) for row in described) == [0, 1, 2]
        for row in described:
            assert (row["TOPIC"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == (
                topic,
                "10",
                "10",
                "0",
            )
            assert row["HOST"] == "/127.0.0.1"
            assert row["CLIENT-ID"] in ("client-0", "client-1")
            assert len(row["CONSUMER-ID"]) > 10
        assert table(tool("--describe", "--group", group, "--offsets")) == described
        verbose = table(tool("--describe", "--group", group, "--offsets", "--verbose"))
        assert all("LEADER-EPOCH" in row for row in verbose)

        members = table(tool("--describe", "--group", group, "--members"))
        assert sorted(row["#PARTITIONS"] for row in members) == ["1", "2"]
        verbose = table(tool("--describe", "--group", group, "--members", "--verbose"))
        assert any(f"{topic}:" in " ".join(row.values()) for row in verbose)

        (state,) = table(tool("--describe", "--group", group, "--state"))
        assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")
        assert state["ASSIGNMENT-STRATEGY"] == ("uniform" if protocol is CONSUMER else "range")
        assert str(broker.port) in state["COORDINATOR-(ID)"]
        (verbose_state,) = table(tool("--describe", "--group", group, "--state", "--verbose"))
        assert verbose_state["STATE"] == "Stable"
    (state,) = table(tool("--describe", "--group", group, "--state"))
    assert (state["STATE"], state["#MEMBERS"]) == ("Empty", "0")


def test_a_group_without_members_is_described(tool: Tool, broker: BrokerProcess, topic: str) -> None:
    group = fresh("offsets-only")
    commit(broker.bootstrap, group, topic, {0: 4, 2: 10})
    ran = tool("--describe", "--group", group)
    assert f"Consumer group '{group}' has no active members." in ran.out + ran.err
    described = {row["PARTITION"]: row for row in table(ran)}
    assert (described["0"]["CURRENT-OFFSET"], described["0"]["LAG"]) == ("4", "6")
    assert (described["2"]["CURRENT-OFFSET"], described["2"]["LAG"]) == ("10", "0")
    assert described["0"]["CONSUMER-ID"] == "-"
    assert "1" not in described
    assert group in [row["GROUP"] for row in table(tool("--describe", "--all-groups"))]
    assert {"GROUP": group, "STATE": "Empty"} in table(tool("--list", "--state", "empty"))


def test_a_group_that_does_not_exist(tool: Tool) -> None:
    group = fresh("unknown")
    for form in ([], ["--members"], ["--state"], ["--offsets"]):
        ran = tool("--describe", "--group", group, *form)
        assert f"GroupIdNotFoundException: Group {group} not found." in ran.out
    ran = tool("--delete", "--group", group)
    assert "GroupIdNotFoundException" in ran.out + ran.err


RESETS = [
    pytest.param(["--to-earliest"], [0, 0, 0], id="to-earliest"),
    pytest.param(["--to-latest"], [10, 10, 10], id="to-latest"),
    pytest.param(["--to-offset", "7"], [7, 7, 7], id="to-offset"),
    pytest.param(["--to-offset", "70"], [10, 10, 10], id="to-offset-beyond-the-end"),
    pytest.param(["--shift-by", "3"], [7, 8, 9], id="shift-by"),
    pytest.param(["--shift-by", "-5"], [0, 0, 1], id="shift-by-back"),
    pytest.param(["--shift-by", "100"], [10, 10, 10], id="shift-by-beyond-the-end"),
    pytest.param(["--to-current"], [4, 5, 6], id="to-current"),
    pytest.param(
        [
            "--to-datetime",
            datetime.fromtimestamp((BEGIN_MS + 8 * MINUTE_MS) / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
        ],
        [8, 8, 8],
        id="to-datetime",
    ),
    pytest.param(["--by-duration", "PT1H"], [10, 10, 10], id="by-duration-after-the-last"),
    pytest.param(["--by-duration", "P10000D"], [0, 0, 0], id="by-duration-before-the-first"),
]


@pytest.mark.parametrize(("form", "expected"), RESETS)
def test_offsets_are_reset_in_every_form(
    tool: Tool, broker: BrokerProcess, topic: str, form: list[str], expected: list[int]
) -> None:
    group = fresh("reset")
    commit(broker.bootstrap, group, topic, {0: 4, 1: 5, 2: 6})
    wanted = {str(part): str(offset) for part, offset in enumerate(expected)}

    def current() -> dict[str, str]:
        return {
            row["PARTITION"]: row["CURRENT-OFFSET"] for row in table(tool("--describe", "--group", group))
        }

    reset = ("--reset-offsets", "--group", group, *form)
    planned = table(tool(*reset, "--topic", topic, "--dry-run"))
    assert {row["PARTITION"]: row["NEW-OFFSET"] for row in planned} == wanted
    assert current() == {"0": "4", "1": "5", "2": "6"}
    done = table(tool(*reset, "--topic", f"{topic}:1", "--execute"))
    assert [(row["PARTITION"], row["NEW-OFFSET"]) for row in done] == [("1", wanted["1"])]
    assert current() == {"0": "4", "1": wanted["1"], "2": "6"}
    if form[0] not in ("--shift-by", "--to-current"):
        table(tool(*reset, "--all-topics", "--execute"))
        assert current() == wanted


def test_offsets_are_exported_and_read_from_a_file(
    tool: Tool, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    group = fresh("from-file")
    commit(broker.bootstrap, group, topic, {0: 4, 1: 5, 2: 6})
    exported = tool("--reset-offsets", "--group", group, "--all-topics", "--to-current", "--export")
    assert exported.code == 0, exported.out + exported.err
    lines = sorted(line for line in exported.lines if line.startswith(topic))
    assert lines == [f"{topic},0,4", f"{topic},1,5", f"{topic},2,6"]
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,1\n{topic},1,2\n")
    done = table(tool("--reset-offsets", "--group", group, "--from-file", str(plan), "--execute"))
    assert {row["PARTITION"]: row["NEW-OFFSET"] for row in done} == {"0": "1", "1": "2"}
    described = table(tool("--describe", "--group", group))
    assert sorted(row["CURRENT-OFFSET"] for row in described) == ["1", "2", "6"]


def test_offsets_of_a_new_group_are_reset(tool: Tool, topic: str) -> None:
    group = fresh("new")
    done = table(tool("--reset-offsets", "--group", group, "--topic", topic, "--to-offset", "3", "--execute"))
    assert [row["NEW-OFFSET"] for row in done] == ["3"] * PARTITIONS
    assert [row["CURRENT-OFFSET"] for row in table(tool("--describe", "--group", group))] == [
        "3"
    ] * PARTITIONS


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_active_group_is_neither_reset_nor_deleted(
    tool: Tool, broker: BrokerProcess, topic: str, protocol: dict[str, str]
) -> None:
    group = fresh("active")
    with LiveGroup(broker.bootstrap, group, topic, protocol, members=1):
        reset = tool("--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
        assert f"Assignments can only be reset if the group '{group}' is inactive" in reset.out + reset.err
        deleted = tool("--delete", "--group", group)
        assert "GroupNotEmptyException" in deleted.out + deleted.err
        offsets = tool("--delete-offsets", "--group", group, "--topic", topic)
        assert "subscribed" in (offsets.out + offsets.err).lower()
        described = table(tool("--describe", "--group", group))
        assert {row["CURRENT-OFFSET"] for row in described} == {"10"}


def test_a_group_is_deleted(tool: Tool, broker: BrokerProcess, topic: str) -> None:
    groups = [fresh("deleted") for _ in range(2)]
    for group in groups:
        commit(broker.bootstrap, group, topic, {0: 4})
    ran = tool("--delete", "--group", groups[0], "--group", groups[1])
    assert "was successful" in ran.out
    assert not set(groups) & set(tool("--list").lines)
    assert "GroupIdNotFoundException" in tool("--describe", "--group", groups[0]).out


def test_offsets_are_deleted(tool: Tool, broker: BrokerProcess, topic: str) -> None:
    group = fresh("fewer")
    commit(broker.bootstrap, group, topic, {0: 4, 1: 5, 2: 6})
    deleted = table(tool("--delete-offsets", "--group", group, "--topic", f"{topic}:1"), "TOPIC")
    assert [(row["PARTITION"], row["STATUS"]) for row in deleted] == [("1", "Successful")]
    described = table(tool("--describe", "--group", group))
    assert sorted(row["PARTITION"] for row in described) == ["0", "2"]
    table(tool("--delete-offsets", "--group", group, "--topic", topic), "TOPIC")
    assert table(tool("--describe", "--group", group)) == []


def test_the_newer_tool_lists_groups(tools: JavaTools, broker: BrokerProcess, topic: str) -> None:
    group = fresh("newer")
    commit(broker.bootstrap, group, topic, {0: 1})
    listed = rows(tools.good("kafka-groups", "--bootstrap-server", broker.bootstrap, "--list").out, "GROUP")
    assert [row["TYPE"] for row in listed if row["GROUP"] == group] == ["Classic"]
