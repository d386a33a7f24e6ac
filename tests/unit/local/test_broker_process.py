"""A broker's process ends whatever interrupts its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from tests.support.waiting import wait_until

SILENT = [sys.executable, "-c", "import signal; signal.pause()"]


OWNER = """
import signal, sys
from pathlib import Path
from ottla.local.broker_process import BrokerProcess
print(BrokerProcess(Path(sys.argv[1])).start().pid, flush=True)
signal.pause()
"""


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerProcess:
    """One that never becomes ready."""
    made = BrokerProcess(tmp_path / "data")
    monkeypatch.setattr(made, "command", lambda: SILENT)
    return made


def test_an_interrupted_start_leaves_no_process(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def interrupt() -> None:
        seen.append(broker.pid)
        assert os.getsid(broker.pid) != os.getsid(0), "Ctrl-C in our terminal is not for it"
        raise KeyboardInterrupt

    monkeypatch.setattr(broker, "wait_ready", interrupt)
    with pytest.raises(KeyboardInterrupt):
        broker.start()
    with pytest.raises(ProcessLookupError):
        os.kill(seen[0], 0)
    assert not broker.running


def test_a_broker_that_ends_at_once_is_reported(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "command", lambda: [sys.executable, "-c", "print('no disk'); exit(3)"])
    with pytest.raises(BrokerNotStarted, match=r"ended with 3:\n.*no disk"):
        broker.start()


def test_another_thread_can_ask_whether_a_broker_runs_while_it_is_killed(broker: BrokerProcess) -> None:
    class Killed(BrokerProcess):
        """Its process is taken away after it was read once."""

        reads = 0

        @property
        def _process(self) -> subprocess.Popen[bytes] | None:  # type: ignore[override]
            self.reads += 1
            return broker._process if self.reads == 1 else None

        @_process.setter
        def _process(self, value: subprocess.Popen[bytes] | None) -> None: ...

    broker.launch()
    try:
        assert Killed(broker.data, port=1).running
    finally:
        broker.kill()


def test_it_does_not_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    """The broker ends itself when its owner is killed."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path / "data")], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    with owner.stdout as output:
        pid = int(output.readline())
    os.kill(pid, 0)
    owner.kill()
    owner.wait()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "its end")
