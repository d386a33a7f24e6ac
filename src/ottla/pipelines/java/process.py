"""The Java process of a session: started so that it is known from its first moment, and ended whatever it does.

PySpark starts it and waits for its answer, for seconds, and would lose it if a signal's handler raised meanwhile. So it
is started in a thread of its own, where no handler runs, and the process is noted as it is made. Who waits for the
start may give it up at any moment: nothing is left of it then.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

LOOK_EVERY_S: Final = 0.1
ENDING_S: Final = 2.0
"""For what Java does before it ends: deleting its folders, above all."""

GIVEN_UP_S: Final = 10.0
"""For a start without its process to come to an end."""


class Stopped(Exception):
    """The start was given up, as asked."""


class Launch:
    """The start of Java and of Spark's context in it. `result` waits for it, `end` undoes it."""

    def __init__(self, conf: Any, streams: dict[str, Any]) -> None:
        """Begins; `streams` are the standard streams of Java."""
        self._conf, self._streams = conf, streams
        self._gateway: Any = None
        self._context: Any = None
        self._error: BaseException | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def result(self, stop: threading.Event | None) -> Any:
        """Spark's context. Raises what went wrong, or `Stopped` as soon as `stop` is set."""
        while self._thread.is_alive():
            self._thread.join(LOOK_EVERY_S)
            if stop is not None and stop.is_set():
                raise Stopped
        if self._error is not None:
            raise self._error
        return self._context

    def end(self) -> None:
        """Ends the process, now or as soon as it is made."""
        self._given_up = True
        if self._process is not None:
            _kill(self._process)
        self._thread.join(GIVEN_UP_S)

    def _run(self) -> None:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        launch: Any = launch_gateway
        try:
            with self._noting():
                self._gateway = launch(self._conf, self._streams)
            self._note(self._gateway.proc)
            self._context = SparkContext(gateway=self._gateway, conf=SparkConf(_jvm=self._gateway.jvm))
        except BaseException as error:  # noqa: BLE001 - it belongs to who waits
            self._error = error

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """PySpark hands the process out when it has answered; this notes it when it is made."""
        from pyspark import java_gateway

        launch, module = self, cast(Any, java_gateway)

        class Noted(subprocess.Popen[bytes]):
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **named)
                launch._note(self)

        known, module.Popen = module.Popen, Noted
        try:
            yield
        finally:
            module.Popen = known

    def _note(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        if self._given_up:
            _kill(process)


def end_java(gateway: Any, wait_s: float) -> None:
    """Ends the process of a session, which may take so long by itself."""
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
    """Java is started by scripts: the whole group of processes ends, and has a moment to do so in order."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
    if process.stdin is not None:
        process.stdin.close()
