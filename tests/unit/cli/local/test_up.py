"""The command `up`: keys, errors, and a cluster that is stopped and opened again."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from ottla.cli.local.cluster_view import Snapshot
from ottla.cli.local.up import REDRAWN_AFTER, Commands, _view
from ottla.local.cluster_directory import ClusterDescription, on_free_ports
from ottla.local.ports import free_port

OTTLA = [sys.executable, "-m", "ottla.cli.main", "up"]


class Broker:
    def __init__(self) -> None:
        self.running, self.paused = True, False
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        def call() -> None:
            self.calls.append(name)
            if name in ("kill", "stop"):
                self.running = False
            if name in ("pause", "resume"):
                self.paused = name == "pause"

        return call


@pytest.fixture
def brokers() -> dict[int, Broker]:
    return {0: Broker(), 1: Broker()}


@pytest.fixture
def commands(brokers: dict[int, Broker]) -> Commands:
    cluster = SimpleNamespace(brokers=brokers, kill=lambda node_id: brokers[node_id].kill())
    return Commands(cluster, SimpleNamespace(ended_as={}))  # type: ignore[arg-type]


def test_keys_act_on_the_selected_broker(commands: Commands, brokers: dict[int, Broker]) -> None:
    for key in ["1", "p", "p", "k", "k", "r", "9", "x", ""]:
        commands.press(key)
    assert brokers[0].calls == []
    assert brokers[1].calls == ["pause", "resume", "kill", "launch"]
    assert commands.selected == 1
    assert not commands.quit


def test_notes_describe_what_was_done(commands: Commands, brokers: dict[int, Broker]) -> None:
    notes = []
    for key in "kkpsr":
        commands.press(key)
        notes.append(commands.note)
    assert notes == [
        "broker 0: killed",
        "broker 0: does not run",
        "broker 0: does not run",
        "broker 0: does not run",
        "broker 0: is starting",
    ]
    commands.press("q")
    assert commands.quit


def test_a_running_broker_is_stopped_cleanly_before_it_is_restarted(
    commands: Commands, brokers: dict[int, Broker]
) -> None:
    commands.press("s")
    commands.press("r")
    assert brokers[0].calls == ["request_stop", "stop", "launch"]


def test_commands_of_other_processes(commands: Commands, brokers: dict[int, Broker]) -> None:
    performed = [
        commands.perform(action, broker)
        for action, broker in [
            ("resume", 1),
            ("pause", 1),
            ("pause", 1),
            ("resume", 1),
            ("kill", 1),
            ("kill", 1),
            ("restart", 1),
            ("kill", 7),
            ("format", 1),
        ]
    ]
    assert performed == [
        ("is not paused", False),
        ("paused", True),
        ("is paused", False),
        ("resumed", True),
        ("killed", True),
        ("does not run", False),
        ("is starting", True),
        ("there is no broker 7 in this cluster", False),
        ("there is no action format", False),
    ]
    assert brokers[1].calls == ["pause", "resume", "kill", "launch"]


def test_the_tables_are_drawn_when_something_has_changed() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, _environ={"TERM": "xterm"})
    shown = SimpleNamespace(selected=0, note="")
    with _view(console, SimpleNamespace(snapshot=Snapshot()), shown) as refresh:  # type: ignore[arg-type]
        refresh()
        drawn = console.file.tell()
        for _ in range(REDRAWN_AFTER - 1):
            refresh()
        assert console.file.tell() == drawn
        refresh()
        assert console.file.tell() > drawn, "another program may have written over them"
        shown.note = "broker 0: killed"
        refresh()
        assert "broker 0: killed" in console.file.getvalue()  # type: ignore[attr-defined]


def run_until(prefix: str, *arguments: str) -> tuple[int, str]:
    """Run the command until it prints a line with the prefix, then send SIGINT; its exit code and output."""
    process = subprocess.Popen([*OTTLA, *arguments], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = []
    interrupted = False
    with process.stdout as output:
        for line in output:
            lines.append(line)
            if line.startswith(prefix) and not interrupted:
                interrupted = True  # a second signal ends the command at once
                os.kill(process.pid, signal.SIGINT)
    return process.wait(60), "".join(lines)


def test_a_cluster_is_started_stopped_and_opened_again(tmp_path: Path) -> None:
    data, port = str(tmp_path / "my data"), str(on_free_ports(ClusterDescription(1)).port)
    arguments = ("--brokers", "1", "--racks", "R1", "--port", port, "--data", data)
    code, output = run_until("active controller", *arguments)
    assert code == 0
    assert f"Ready: bootstrap.servers=127.0.0.1:{port}\n" in output
    assert "broker 0: running\n" in output
    assert output.splitlines()[-1].startswith("Stopped all brokers.")
    assert f" up --data '{data}'` starts them again." in output
    assert (tmp_path / "my data" / "broker-0" / ".kafka_cleanshutdown").exists()
    code, output = run_until("active controller", "--data", data)
    assert code == 0
    assert f"Ready: bootstrap.servers=127.0.0.1:{port}\n" in output, "port and size are kept"


def processes_of(data: str) -> list[str]:
    """The command lines of the processes with this directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(path.read_text())
    return [each for each in found if data in each]


def test_a_signal_during_the_start_ends_it(tmp_path: Path) -> None:
    data, port = str(tmp_path / "data"), str(on_free_ports(ClusterDescription(3)).port)
    code, output = run_until("Starting", "--brokers", "3", "--port", port, "--data", data)
    assert code == 0
    starting, *stopping, stopped = output.splitlines()
    assert starting.startswith("Starting the brokers")
    # The message is omitted if the signal arrives while another line is printed.
    assert stopping in ([], ["Stopping ..."])
    assert stopped.startswith("Stopped all brokers.")
    assert processes_of(data) == []


def test_a_port_in_use_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        arguments = [*OTTLA, "--data", str(tmp_path / "data"), "--port", str(port)]
        ended = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    # Another port of the cluster may be in use, too.
    reported = (
        rf"ottla: --port: {port}(, \d+)* in use on 127\.0\.0\.1; stop the other program or use another --port"
    )
    assert re.fullmatch(reported, ended.stderr.strip()), ended.stderr
