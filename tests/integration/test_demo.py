"""The demo plays its matches to the end, and plays again over the data of the first time."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

MATCHES = ("Canada vs USA", "France vs Spain", "Japan vs Brazil")
TIMEOUT_S = 400

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None and "OTTLA_REQUIRE_SPARK" not in os.environ, reason="Spark needs Java"
)


@pytest.mark.slow
def test_the_demo_shows_every_match_to_its_end_in_both_groups_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path), "--speed", "400"]
    finals = []
    for _ in range(2):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        lines = ran.stdout.splitlines()
        for device in ("mobile", "computer"):
            shown = [line for line in lines if line.startswith(f"{device:>8}: ")]
            for match in MATCHES:
                of_match = [line for line in shown if f": {match}: " in line]
                assert " final, " in of_match[-1], ran.stdout
                assert of_match.count(of_match[-1]) == 1, "shown once"
        finals.append({line.partition(": ")[2] for line in lines if " final, " in line})
        assert "mobile-2: " in ran.stdout, "a second mobile came"
        assert not [noise for noise in ("Traceback", "ERROR") if noise in ran.stdout + ran.stderr]
    assert finals[0] == finals[1], "the same seed plays the same matches"
    assert len(finals[0]) == len(MATCHES)


def test_without_java_the_demo_reports_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path / "data")]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert ran.returncode == 2
    assert "Spark needs Java 17 or newer" in " ".join(ran.stderr.split())
    assert not (tmp_path / "data").exists(), "nothing was started"


def test_a_data_directory_that_cannot_be_created_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path / "taken")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"ottla: --data: cannot create the directory {tmp_path}/taken: File exists\n"


def left_behind(data: Path) -> list[str]:
    """Commands of processes that work on this directory."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(data) in command and folder.name != str(os.getpid()):
            found.append(command)
    return found


def interrupted(data: Path, when: Callable[[str], bool], how: Callable[[int], None]) -> tuple[int, str]:
    """A demo that is asked to end as soon as its output says so; its exit code and all that it said."""
    said = data.parent / f"{data.name}.said"
    with said.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(data), "--speed", "10"],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    wait_until(lambda: process.poll() is not None or when(said.read_text()), "the moment", TIMEOUT_S)
    how(process.pid)
    code = process.wait(TIMEOUT_S)
    return code, said.read_text()


@pytest.mark.slow
def test_ctrl_c_in_the_terminal_ends_clients_before_their_broker(tmp_path: Path) -> None:
    """The terminal sends it to all processes of the foreground at once."""
    code, output = interrupted(
        tmp_path / "data", lambda said: "  mobile: " in said, lambda pid: os.killpg(pid, signal.SIGINT)
    )
    assert code == 130, output
    assert "Stopped all processes of the demo." in output
    assert not [noise for noise in ("Traceback", "ERROR", "processes have ended") if noise in output], output
    assert left_behind(tmp_path / "data") == []


def test_an_early_end_leaves_no_broker_behind(tmp_path: Path) -> None:
    code, output = interrupted(
        tmp_path / "data",
        lambda said: "Starting three brokers" in said,
        lambda pid: os.kill(pid, signal.SIGTERM),
    )
    assert code == 130, output
    assert output.endswith("Stopping ...\nStopped all processes of the demo.\n")
    assert "Traceback" not in output
    wait_until(lambda: left_behind(tmp_path / "data") == [], "the end of all it started")


def test_a_port_that_is_taken_is_reported_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path), "--port", port]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    # Another port of the demo may be in use, too.
    assert re.match(rf"ottla: --port: {port}(, \d+)* in use on 127\.0\.0\.1; ", ran.stderr), ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("words", [("--speed", "0"), ("--matches", "0"), ("--port", "70000")])
def test_what_cannot_be_played_is_refused_at_once(tmp_path: Path, words: tuple[str, str]) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path / "data"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 2
    assert words[0] in ran.stderr
    assert not (tmp_path / "data").exists()
