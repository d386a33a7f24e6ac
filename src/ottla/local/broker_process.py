"""A broker in a child process, on loopback, with its data in a given directory: start, stop, kill, restart.

The port is chosen once, so that clients find the broker again after a restart. `start` returns when the broker has
printed that it is ready. It raises, with the output of the broker, if the process ends or does not become ready. Nodes
of one cluster become ready together: call `launch` for all of them and then `wait_ready` for each.

The broker has its own session: Ctrl-C in a terminal is sent to the parent only, which stops the clients first. The
broker does not outlive its parent: after an exception in `start`, also one of a signal handler, the process is killed,
and on Linux the kernel ends a broker that was started by the main thread when the parent ends.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ottla.local.ports import free_port

READY = re.compile(rb"^ready ", re.MULTILINE)
"""The beginning of the line that a broker prints when it is ready; "already in use" must not match."""
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
_CHECK_INTERVAL_S = 0.01
_ENDING_WITH_PARENT = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 15)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Executes the command after it has requested SIGTERM for the end of the parent thread. The child does that itself,
because Python code must not run between fork and exec in a process with threads."""


class BrokerNotStarted(RuntimeError):
    """The broker process has ended before it was ready."""


class BrokerProcess:
    """One broker. Not thread-safe, except for `running`. Use it as a context manager, or call `start` and `stop`."""

    def __init__(
        self,
        data: Path,
        overrides: Mapping[str, str] | None = None,
        *,
        port: int | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """`overrides` are visible in the list of processes; secrets belong into a file named in `arguments`."""
        self.data = data
        self.port = port or free_port()
        self._overrides = dict(overrides or {})
        self._arguments = list(arguments)
        self._output = data.parent / f"{data.name}.out"
        self._process: subprocess.Popen[bytes] | None = None
        self._output_before = 0
        """Bytes of output of earlier starts."""
        self._paused = False

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
        process = self._process  # another thread may end the broker meanwhile
        return process is not None and process.poll() is None

    @property
    def paused(self) -> bool:
        return self._paused

    def output(self) -> str:
        """What the broker has written to its standard streams, over all starts."""
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def command(self) -> list[str]:
        settings = {"listeners": f"PLAINTEXT://{self.bootstrap}", **self._overrides}
        command = [sys.executable, "-m", "ottla.cli.main", "broker", "--data", str(self.data)]
        command += self._arguments
        for key, value in settings.items():
            command += ["--override", f"{key}={value}"]
        return command

    def start(self) -> BrokerProcess:
        try:
            self.launch()
            self.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def launch(self) -> None:
        """Start the process and return at once. The caller kills it if it does not become ready."""
        self.data.mkdir(parents=True, exist_ok=True)
        self._output_before = self._output.stat().st_size if self._output.exists() else 0
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command_ending_with_parent(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command_ending_with_parent(self) -> list[str]:
        """The command, so that it ends with this process; only for the main thread, others may end earlier."""
        if sys.platform != "linux" or threading.current_thread() is not threading.main_thread():
            return self.command()
        return [sys.executable, "-S", "-c", _ENDING_WITH_PARENT, str(os.getpid()), *self.command()]

    def wait_ready(self, stop: threading.Event | None = None) -> None:
        """Wait for the line that the broker prints when it is ready, or until `stop` is set."""
        pause = stop or threading.Event()
        for _ in range(int(START_TIMEOUT_S / _CHECK_INTERVAL_S)):
            output = self._output.read_bytes()[self._output_before :]
            if READY.search(output):
                return
            if self._process is None or self._process.poll() is not None:
                code = None if self._process is None else self._process.returncode
                raise BrokerNotStarted(f"the broker ended with {code}:\n{self.output()[-4000:]}")
            if pause.wait(_CHECK_INTERVAL_S):
                return
        raise TimeoutError(f"the broker was not ready within {START_TIMEOUT_S} s:\n{self.output()[-4000:]}")

    def stop(self) -> int | None:
        """Stop the broker cleanly; return its exit code, None if it was not running."""
        self.resume()
        return self._end(signal.SIGTERM)

    def request_stop(self) -> None:
        """Start a clean stop and return at once; `stop` waits for it."""
        self.resume()
        self._send(signal.SIGTERM)

    def send_kill(self) -> None:
        """Send SIGKILL and return at once; `kill` waits for the end."""
        self._send(signal.SIGKILL)

    def kill(self) -> int | None:
        return self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Stop the execution of the process, without a message to any client; its sockets stay open."""
        self._paused = self._send(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._paused:
            self._paused = False
            self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> bool:
        if self._process is None or self._process.poll() is not None:
            return False
        self._process.send_signal(number)
        return True

    def _end(self, how: signal.Signals) -> int | None:
        process, self._process = self._process, None
        self._paused = False
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
