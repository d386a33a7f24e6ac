"""Start and end of the Java process of a session, without leaving a process behind.

PySpark starts Java and waits seconds for it to respond. If a signal handler raised during that time, the process would
be lost. So it is started in a separate thread, where no handler runs, and the process is recorded as soon as it
exists. The caller can abandon the start at any time; the process is then ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

CHECK_INTERVAL_S: Final = 0.1
ENDING_S: Final = 2.0
"""The time for Java to end after SIGTERM; it deletes its directories then."""

ABANDONED_S: Final = 10.0
"""The time for an abandoned start to end."""


class Stopped(Exception):
    """The start was abandoned because `stop` was set."""


class Launch:
    """The start of Java and of its SparkContext. `result` waits for it, `end` ends the process."""

    def __init__(self, conf: Any, streams: dict[str, Any]) -> None:
        """Begin the start; `streams` are the standard streams of the process."""
        self._conf, self._streams = conf, streams
        self._gateway: Any = None
        self._context: Any = None
        self._error: BaseException | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self, stop: threading.Event | None) -> Any:
        """Wait for the SparkContext. Raises the error of the start, or `Stopped` as soon as `stop` is set."""
        while self._thread.is_alive():
            self._thread.join(CHECK_INTERVAL_S)
            if stop is not None and stop.is_set():
                raise Stopped
        if self._error is not None:
            raise self._error
        return self._context

    def end(self) -> None:
        """End the process, now or as soon as it exists."""
        self._abandoned = True
        if self._process is not None:
            _kill(self._process)
        self._thread.join(ABANDONED_S)

    def _run(self) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        launch: Any = launch_gateway
        try:
            with self._recording():
                self._gateway = launch(self._conf, self._streams)
            self._record(self._gateway.proc)
            self._context = SparkContext(gateway=self._gateway, conf=SparkConf(_jvm=self._gateway.jvm))
        except BaseException as error:  # noqa: BLE001 - raised by `result`
            self._error = error

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Record the process as soon as PySpark creates it; PySpark returns it only after Java has responded."""
        from pyspark import java_gateway

        launch, module = self, cast(Any, java_gateway)

        class Recorded(subprocess.Popen[bytes]):
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **named)
                launch._record(self)

        known, module.Popen = module.Popen, Recorded
        try:
            yield
        finally:
            module.Popen = known

    def _record(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self._abandoned:
            _kill(process)


def end_java(gateway: Any, wait_s: float) -> None:
    """End the process of a session; kill it after `wait_s` seconds."""
    if gateway is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    process = gateway.proc
    if process is not None:
        process.stdin.close()
        try:
            process.wait(wait_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the whole process group, because Java is started by scripts: SIGTERM first, then SIGKILL."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
    if process.stdin is not None:
        process.stdin.close()
