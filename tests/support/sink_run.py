"""A query that copies lines of files to a topic, in a Spark driver of its own process, and how to kill it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.spark.conftest import TUNED
from tests.support.clients import create_topic, fresh
from tests.support.sink_driver import Settings
from tests.support.sink_queries import LINES, Lines, committed_values, open_transactions
from tests.support.waiting import wait_until

PARTITIONS = 3
TIMEOUT_S = 180.0
LOCAL = "local[2,4]"


class Run:
    """A query, the files it reads, the broker it writes to, and everything that can be killed."""

    def __init__(
        self,
        directory: Path,
        broker: Any,
        master: str = LOCAL,
        spark: Mapping[str, str] | None = None,
        *,
        replicas: int = 1,
    ) -> None:
        self.broker = broker
        self.lines = Lines(directory / "lines")
        self.orders = directory / "orders"
        self.orders.mkdir()
        self.topic = create_topic(broker.bootstrap, fresh("copied"), PARTITIONS, replicas=replicas)
        self._checkpoint = directory / "checkpoint"
        self._output = directory / "driver.out"
        self._settings = Settings(
            broker.bootstrap,
            self.topic,
            str(self.lines.directory),
            str(self._checkpoint),
            str(self.orders),
            str(directory / "scratch"),
            master,
            {**TUNED, **(spark or {})},
        )
        self._driver: subprocess.Popen[bytes] | None = None

    def start_driver(self) -> None:
        with self._output.open("ab") as output:
            self._driver = subprocess.Popen(
                self._settings.command(), stdout=output, stderr=output, start_new_session=True
            )

    def driver_is_dead(self) -> bool:
        return self._driver is None or self._driver.poll() is not None

    def kill_driver(self) -> None:
        """The Python and the Java half of it; the workers end when they notice."""
        if self._driver is not None:
            if self._driver.poll() is None:
                os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()

    def kill_workers(self) -> int:
        """The Python processes that run tasks and commits: what an executor's death is to the sink."""
        below = [] if self._driver is None else descendants(self._driver.pid)
        workers = [pid for pid in below if b"pyspark.daemon" in command_of(pid)]
        for pid in workers:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return len(workers)

    def kill_broker(self) -> None:
        self.broker.kill()
        self.broker.start()

    def files_done(self) -> int:
        """As Spark's checkpoint says. After a crash two files can come in one batch, so batches do not tell."""
        done = [int(path.name) for path in (self._checkpoint / "commits").glob("[0-9]*")]
        if not done:
            return 0
        offset = (self._checkpoint / "offsets" / str(max(done))).read_text().splitlines()[-1]
        return int(json.loads(offset)["logOffset"]) + 1

    def wait_for_files(self, count: int) -> None:
        wait_until(
            lambda: self.files_done() >= count or self.driver_is_dead(),
            f"file {count} to be copied; {self._output.read_text()[-2000:]}",
            TIMEOUT_S,
        )

    def finish(self) -> None:
        """Wait until all is copied, and look at it."""
        for order in self.orders.iterdir():
            order.unlink(missing_ok=True)
        while self.files_done() < len(self.lines.written) // LINES:
            if self.driver_is_dead():
                self.start_driver()
            self.wait_for_files(self.files_done() + 1)
        self.check()
        assert open_transactions(self.broker.bootstrap) == []

    def check(self) -> None:
        """Every line is there once for those who read what is committed."""
        found = committed_values(self.broker.bootstrap, self.topic, PARTITIONS)
        assert found == sorted(self.lines.written), _difference(found, self.lines.written)


def _difference(found: list[str], expected: list[str]) -> str:
    twice = sorted({value for value in found if found.count(value) > 1})
    return f"missing {sorted(set(expected) - set(found))[:20]}, twice {twice[:20]}"


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> list[int]:
    """All processes below one, the nearest first."""
    found = [pid]
    for each in found:
        for thread in Path(f"/proc/{each}/task").glob("*/children"):
            try:
                found += [int(child) for child in thread.read_text().split()]
            except OSError:
                continue
    return found[1:]
