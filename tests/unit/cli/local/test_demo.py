"""The command `demo`: how it ends, and which cause it reports for a failure."""

from __future__ import annotations

import io
import signal
from pathlib import Path

import pytest
from rich.console import Console

from ottla.base.errors import LocalError
from ottla.cli.local import demo
from ottla.local.cluster_directory import ClusterDescription, on_free_ports


@pytest.fixture
def console() -> Console:
    return Console(file=io.StringIO(), record=True)


def test_the_cluster_of_the_demo_has_two_racks_and_the_given_port(tmp_path: Path) -> None:
    port = on_free_ports(ClusterDescription(3)).port
    cluster = demo._cluster(tmp_path / "cluster", port)
    assert list(cluster.brokers) == [0, 1, 2]
    assert cluster.racks == ("R1", "R2")
    assert cluster.address(0) == f"127.0.0.1:{port}"
    again = demo._cluster(tmp_path / "cluster", None)
    assert len(again.brokers) == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_stop_is_reported_at_once_and_requested_once(console: Console, number: signal.Signals) -> None:
    with demo._interruptible(console):
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
        signal.raise_signal(number)
        assert isinstance(console.file, io.StringIO)
        assert console.file.getvalue() == "Stopping ...\n"


def test_the_directory_of_a_single_broker_is_refused(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    with pytest.raises(LocalError, match="has the data of a single broker"):
        demo._cluster(tmp_path / "cluster", None)
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.parametrize("called", ["ottla", ".venv/bin/ottla"])
def test_next_steps_name_the_program_as_it_was_called(
    console: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    monkeypatch.setattr(demo, "program", lambda: called)
    demo._print_next_steps(console, tmp_path)
    steps = [line.split()[0] for line in console.export_text().splitlines() if line.startswith("  ")]
    assert steps == [called] * 4 + ["kcat"]
