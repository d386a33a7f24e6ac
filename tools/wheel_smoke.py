"""The smoke test of an installed wheel, run by the Python of its environment: a broker, a record, the help.

The argument is 1 if the wheel has compiled kernels and modules. Only what `pip install ottla` brings is used.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, Producer

from ottla.base import compiled
from ottla.records import kernel

OTTLA = str(Path(sys.executable).parent / "ottla")
TIMEOUT_S = 60


def main(kernels: str) -> None:
    assert kernel.COMPILED is (kernels == "1"), f"compiled kernels: {kernel.COMPILED}"
    extensions = compiled.current_extensions(compiled.PACKAGE)
    assert bool(extensions) is (kernels == "1"), f"compiled modules: {sorted(extensions)}"
    assert "broker" in subprocess.run([OTTLA, "--help"], capture_output=True, text=True, check=True).stdout
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [OTTLA, "broker", "--data", "ottla-data", "--port", str(port)]
    with Path("broker.log").open("w") as log:
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert broker.stdout is not None
        ready = broker.stdout.readline()
        assert ready.startswith(f"ready PLAINTEXT://127.0.0.1:{port}"), ready
        check_records(f"127.0.0.1:{port}")
    finally:
        broker.terminate()
        code = broker.wait(TIMEOUT_S)
    assert code == 0, f"the broker ended with {code}: {Path('broker.log').read_text()[-2000:]}"


def check_records(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce("matches", key="Canada vs USA", value="Score 39-46")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "mobile", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["matches"])
    (record,) = consumer.consume(1, timeout=TIMEOUT_S)
    assert record.value() == b"Score 39-46"
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1])
