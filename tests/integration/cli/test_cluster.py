"""The commands of `ottla cluster` on three brokers that `ottla up` runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.admin.cluster import nodes
from ottla.admin.contexts import ContextFolder
from ottla.admin.session import Session
from ottla.console.broker_control import RemoteControl
from ottla.local.cluster_directory import ClusterDescription, on_free_ports
from tests.support.command_line import CommandLine
from tests.support.console import console_for, request, token_of
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def ottla(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandLine]:
    """The commands of a cluster of three brokers in two racks."""
    folder = tmp_path_factory.mktemp("up")
    description = on_free_ports(ClusterDescription(3))
    command = [sys.executable, "-m", "ottla.cli.main", "up", "--data", str(folder / "data")]
    command += ["--racks", "R1,R2", "--port", str(description.port), "--console-port", "0"]
    with (folder / "out").open("wb") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, "XDG_CONFIG_HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    contexts = ContextFolder(folder / "ottla")
    try:
        wait_until(lambda: contexts.default() is not None, "the context of the cluster", timeout_s=90)
        context = contexts.load("local")
        assert context.pid == process.pid
        yield CommandLine(context.bootstrap, folder)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0, (folder / "out").read_text()
    assert contexts.default() is None


def test_the_cluster_is_described(ottla: CommandLine) -> None:
    info = ottla.json("cluster", "info")
    assert (info["brokers"], info["fenced"]) == (3, 0)
    assert info["features"]["transaction.version"] == 2
    listed = ottla.json("cluster", "nodes")
    assert [(each["broker"], each["rack"], each["state"]) for each in listed] == [
        (0, "R1", "running"),
        (1, "R1", "running"),
        (2, "R2", "running"),
    ]
    assert [each["role"] for each in listed].count("active controller") == 1
    quorum = ottla.json("cluster", "quorum")
    assert quorum["leader"] == info["controller"]
    assert sorted(each["role"] for each in quorum["replicas"]) == ["leader", "voter", "voter"]
    dirs = ottla.json("cluster", "dirs")
    assert [(each["broker"], each["state"]) for each in dirs] == [(0, "online"), (1, "online"), (2, "online")]
    for command in ("info", "nodes", "quorum", "dirs"):
        assert ottla.run("cluster", command)[0]


def test_a_broker_is_killed_and_restarted_and_leaders_are_elected(ottla: CommandLine) -> None:
    ottla.run("topics", "create", "orders", "-p", "6", "-r", "3")
    wait_until(
        lambda: "The cluster is healthy" in ottla.run("cluster", "health", code=None)[1], "a healthy cluster"
    )
    ottla.run("cluster", "kill", "1", code=2)
    ottla.run("cluster", "kill", "1", "--yes")
    _, error = ottla.run("cluster", "kill", "1", "--yes", code=2)
    assert "does not run" in error

    def problems() -> set[str]:
        output, _ = ottla.run("-o", "csv", "cluster", "health", code=None)
        return {line.split(",")[1] for line in output.splitlines()[1:]}

    wait_until(lambda: {"fenced broker", "under-replicated"} <= problems(), "the problems to be found")
    (killed,) = [each for each in ottla.json("cluster", "nodes") if each["broker"] == 1]
    assert (killed["state"], killed["leads"]) == ("fenced", 0)

    ottla.run("cluster", "restart", "1", "--yes", "--timeout", "60s")

    def in_sync() -> bool:
        partitions = ottla.json("topics", "describe", "orders")["partitions"]
        return all(len(each["isr"]) == 3 for each in partitions)

    wait_until(in_sync, "all replicas to be in sync")
    ottla.run("cluster", "elect", "--topic", "orders", "--yes")

    def preferred_lead() -> bool:
        partitions = ottla.json("topics", "describe", "orders")["partitions"]
        return all(each["leader"] == each["replicas"][0] for each in partitions)

    wait_until(preferred_lead, "the preferred replicas to lead")
    assert "No partition needs an election" in ottla.run("cluster", "elect", "-t", "orders", "--yes")[0]


def test_a_console_of_another_process_pauses_and_continues_a_broker(
    ottla: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(ottla.folder))
    control = RemoteControl(ottla.bootstrap)
    wait_until(lambda: control.states() == dict.fromkeys(range(3), "running"), "all brokers to be running")
    with console_for(ottla.bootstrap, control) as console:
        assert 'data-command="ottla cluster kill 2"' in request(console, "/cluster").text
        form = {"token": token_of(console)}
        headers = {"origin": console.url.rstrip("/")}
        for expected in ("paused", "running"):
            done = request(console, "/cluster/brokers/2/pause", form=form, headers=headers)
            assert done.status == 200, done
            wait_until(lambda state=expected: control.states()[2] == state, f"the broker to be {expected}")  # type: ignore[misc]


def test_what_cannot_be_done_is_refused(ottla: CommandLine, tmp_path: Path) -> None:
    _, error = ottla.run("cluster", "kill", "7", "--yes", code=2)
    assert "there is no broker 7" in error
    elsewhere = CommandLine(ottla.bootstrap, tmp_path)
    _, error = elsewhere.run("cluster", "kill", "0", "--yes", code=2)
    assert "only brokers of `ottla up`" in error
    ottla.run("cluster", "elect", "--unclean", code=2)
    ottla.run("cluster", "elect", "--topic", "missing", code=2)


def test_commands_find_the_local_cluster_without_an_address(ottla: CommandLine) -> None:
    program = Path(sys.executable).with_name("ottla")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OTTLA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS", "OTTLA_CONTEXT")
    }
    result = subprocess.run(
        [str(program), "-o", "csv", "cluster", "nodes"],
        env={**environment, "XDG_CONFIG_HOME": str(ottla.folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(result.stdout.splitlines()) == 4


def test_the_nodes_of_a_session(ottla: CommandLine) -> None:
    with Session(ottla.bootstrap) as session:
        found = nodes(session)
    assert [each.node_id for each in found] == [0, 1, 2]
    assert [each.voter for each in found] == [True, True, True]
    assert sum(each.controller for each in found) == 1
    assert {each.address for each in found} == set(ottla.bootstrap.split(","))
