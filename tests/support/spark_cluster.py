"""A Spark cluster of its own: a master and two workers from the pyspark package, each a process with its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ottla.local.ports import free_port
from tests.support.waiting import wait_until

TIMEOUT_S = 240.0
"""Five Java processes start on what may be two cores."""
HOSTS = ("127.0.0.1", "127.0.0.2")
"""Two names of one machine: Spark never runs a second attempt of a task on the host of the first."""


class Processes:
    """Programs with their output in files, each the leader of a process group, ended with the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
        }

    def start(self, name: str, *command: str) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )

    def said(self, name: str) -> str:
        return self._log(name).read_text(errors="replace")

    def alive(self, name: str) -> bool:
        return self._running[name].poll() is None

    def kill(self, name: str) -> None:
        """The program and its children, an executor for example."""
        with suppress(ProcessLookupError):
            os.killpg(self._running[name].pid, signal.SIGKILL)
        self._running.pop(name).wait()

    def stop(self, name: str) -> int:
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(TIMEOUT_S)

    def close(self) -> None:
        for name in list(self._running):
            self.kill(name)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"


def start_cluster(processes: Processes, folder: Path, cores: int) -> str:
    """The address of a master; `worker-0` and `worker-1` have so many slots each."""
    import pyspark

    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    port = free_port()
    address = f"spark://127.0.0.1:{port}"
    master = ("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port))
    processes.start("master", spark_class, *master, "--webui-port", "0")
    wait_until(lambda: "New state: ALIVE" in processes.said("master"), "the master", TIMEOUT_S)
    for number, host in enumerate(HOSTS):
        here = ("--host", host, "--webui-port", "0", "--work-dir", str(folder / f"work-{number}"))
        size = ("--cores", str(cores), "--memory", "1g")
        processes.start(
            f"worker-{number}", spark_class, "org.apache.spark.deploy.worker.Worker", *here, *size, address
        )
    wait_until(lambda: processes.said("master").count("Registering worker") == 2, "two workers", TIMEOUT_S)
    return address
