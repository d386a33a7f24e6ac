"""A folder with the scripts of an Apache Kafka distribution, of which the server is Ottla.

The fixtures of client test suites start brokers with the scripts of a Kafka distribution (`KAFKA_ROOT` of kafka-python,
the folder that trivup downloads for librdkafka and confluent-kafka). `python -m tests.compat.suites.kafka_home FOLDER`
writes such a folder, so that a suite runs unchanged. The tools are Kafka's own. With `--kafka` the server is Kafka's as
well, which tells a bug of Ottla from an assumption of a suite.

What the server of Ottla gets differently: `suites.server_settings`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.kafka_jars import java
from ottla.local.broker_process import READY
from tests.compat.java_tools import JavaTools
from tests.compat.suites.server_settings import Server

ROOT = Path(__file__).parents[3]
SERVER = "kafka.Kafka"
STORAGE = "kafka.tools.StorageTool"
MAIN = {**JavaTools.MAIN, "kafka-server-start": SERVER, "kafka-storage": STORAGE}
SCRIPT = """\
#!/bin/sh
PYTHONPATH='{root}/src:{root}' exec '{python}' -P -m tests.compat.suites.kafka_home run {kind} {main} "$@"
"""


def write(folder: Path, kind: str) -> None:
    """Write the scripts: `kind` is `ottla` or `kafka`."""
    scripts = folder / "bin"
    scripts.mkdir(parents=True, exist_ok=True)
    for name, main in {**MAIN, "kafka-run-class": ""}.items():
        script = scripts / f"{name}.sh"
        script.write_text(SCRIPT.format(root=ROOT, python=sys.executable, kind=kind, main=main))
        script.chmod(0o755)


def run(kind: str, main: str, arguments: list[str]) -> int:
    """Do what a script of the distribution does; the exit code."""
    if kind == "kafka" or main not in (SERVER, STORAGE):
        options = os.environ.get("KAFKA_OPTS", "").split() if main == SERVER else []
        command = [*java(main, *options), *(_reachable(argument) for argument in arguments)]
        os.execvp(command[0], command)  # noqa: S606 - does not return
    if main == STORAGE:
        Server.read(Path(arguments[arguments.index("-c") + 1])).store_users(arguments)
        return 0
    return serve(Server.read(Path(arguments[0])))


def _reachable(argument: str) -> str:
    """The addresses without authentication, if `argument` lists all listeners of a node, as trivup does."""
    listeners = argument.split(",")
    if not argument.startswith("PLAINTEXT://") or len(listeners) == 1:
        return argument
    return ",".join(each for each in listeners if each.startswith("PLAINTEXT://"))


def serve(server: Server) -> int:
    """Run a broker in the foreground; print what Kafka logs when it is ready."""
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "broker",
        *server.arguments(os.environ.get("KAFKA_OPTS", "")),
    ]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
    broker = subprocess.Popen(command, env=kept, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: broker.terminate())
    assert broker.stdout is not None
    for line in broker.stdout:
        print(line.decode(errors="replace"), end="", flush=True)
        if READY.match(line):
            for text in server.ready_lines():
                print(text, flush=True)
    return broker.wait()


def main(arguments: list[str]) -> int:
    if arguments[0] != "run":
        write(Path(arguments[0]), "kafka" if "--kafka" in arguments else "ottla")
        return 0
    _, kind, *rest = arguments
    return run(kind, rest[0], rest[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
