"""A real broker in a process of its own, on loopback, over a directory of yours: start, kill, start again.

The port is chosen once and kept, so that clients find the broker again after a restart. `start` returns when
the broker has said that it is ready, and raises with its output when it ends or stays silent instead.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

READY = b"ready"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
_LOOK_EVERY_S = 0.01


def free_port() -> int:
    """A port of loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class BrokerProcess:
    """One broker. Not thread-safe. Use it as a context manager, or call `start` and `stop`."""

    def __init__(
        self, data: Path, overrides: Mapping[str, str] | None = None, *, port: int | None = None
    ) -> None:
        self.data = data
        self.port = port or free_port()
        self._overrides = dict(overrides or {})
        self._output = data.parent / f"{data.name}.out"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the broker is not running")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def output(self) -> str:
        """Everything the broker has written to its standard streams, over all its lives."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{self.bootstrap}", **self._overrides}
        command = [sys.executable, "-m", "ottla.cli.main", "broker", "--data", str(self.data)]
        for key, value in settings.items():
            command += ["--override", f"{key}={value}"]
        return command

    def start(self) -> BrokerProcess:
        self.data.mkdir(parents=True, exist_ok=True)
        said_before = self._output.stat().st_size if self._output.exists() else 0
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self.command(), stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
        pause = threading.Event()
        for _ in range(int(START_TIMEOUT_S / _LOOK_EVERY_S)):
            if READY in self._output.read_bytes()[said_before:]:
                return self
            if self._process.poll() is not None:
                raise RuntimeError(
                    f"the broker ended with {self._process.returncode}:\n{self.output()[-4000:]}"
                )
            pause.wait(_LOOK_EVERY_S)
        self.kill()
        raise TimeoutError(f"the broker was not ready within {START_TIMEOUT_S} s:\n{self.output()[-4000:]}")

    def stop(self) -> int | None:
        """Ends it cleanly; its exit code, None when it was not running."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int | None:
        return self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(how)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"the broker did not stop within {STOP_TIMEOUT_S} s") from None

    def __enter__(self) -> BrokerProcess:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
