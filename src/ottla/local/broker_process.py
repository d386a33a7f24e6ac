"""A real broker in a process of its own, on loopback, over a directory of yours: start, kill, start again.

The port is chosen once and kept, so that clients find the broker again after a restart. `start` returns when
the broker has said that it is ready, and raises with its output when it ends or stays silent instead.

The broker has a session of its own: Ctrl-C in a terminal reaches its owner alone, who ends the clients first. It does
not outlive its owner: an exception in `start`, a signal's included, leaves none behind, and on Linux the system ends a
broker that the main thread has started when that process ends, however it ends.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

READY = re.compile(rb"^ready ", re.MULTILINE)
"""How the line begins that a broker prints; "already in use" is another matter."""
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
_LOOK_EVERY_S = 0.01
_FOLLOWING = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes the command, to be sent SIGTERM when the thread that started it ends. Set by the child itself, because what
runs between fork and exec must not be Python where there are threads."""


def free_port() -> int:
    """A port of loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class BrokerNotStarted(RuntimeError):
    """The broker has ended instead of becoming ready."""


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
        try:
            with self._output.open("ab") as output:
                self._process = subprocess.Popen(  # noqa: S603 - our own command
                    self._following_command(),
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._wait_ready(said_before)
        except BaseException:
            self.kill()
            raise
        return self

    def _following_command(self) -> list[str]:
        """The command, so that it ends with us; other threads may well end before us."""
        if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
            return self.command()
        return [sys.executable, "-S", "-c", _FOLLOWING, str(os.getpid()), *self.command()]

    def _wait_ready(self, said_before: int) -> None:
        pause = threading.Event()
        for _ in range(int(START_TIMEOUT_S / _LOOK_EVERY_S)):
            said = self._output.read_bytes()[said_before:]
            if READY.search(said):
                return
            if self._process is None or self._process.poll() is not None:
                code = None if self._process is None else self._process.returncode
                raise BrokerNotStarted(f"the broker ended with {code}:\n{self.output()[-4000:]}")
            pause.wait(_LOOK_EVERY_S)
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
