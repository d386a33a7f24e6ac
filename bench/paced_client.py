"""A client that produces 100 records a second and records when each is acknowledged.

    python -m bench.paced_client PORT TOPIC FILE

Each acknowledgement appends two float64 to FILE: when the record was due and when it was acknowledged, both
`time.monotonic()`. The next record is sent when it is due, or at once if the last acknowledgement came later than
that; so a pause of the broker is one large difference. A connection that fails is opened again until the process
is ended; records that were due meanwhile are skipped.
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from pathlib import Path

from bench.first_ack import PRODUCE, call, one_record_batch, text

INTERVAL_S = 0.01
TIMEOUT_S = 60.0
SAMPLE = struct.Struct("dd")


def produce_once(sock: socket.socket, topic: str) -> bool:
    """Produce one record with acks=all; whether it was accepted."""
    batch = one_record_batch(b"paced")
    body = (
        struct.pack(">hhii", -1, -1, 30_000, 1) + text(topic) + struct.pack(">iii", 1, 0, len(batch)) + batch
    )
    response = call(sock, PRODUCE, 7, body)
    return bool(struct.unpack_from(">h", response, 4 + 2 + len(topic.encode()) + 4 + 4)[0] == 0)


def run(port: int, topic: str, file: Path) -> None:
    with file.open("ab", buffering=0) as out:
        while True:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S) as sock:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    due = time.monotonic()
                    while produce_once(sock, topic):
                        now = time.monotonic()
                        out.write(SAMPLE.pack(due, now))
                        due += INTERVAL_S
                        if due > now:
                            time.sleep(due - now)
                        else:
                            due = now
            except OSError:
                pass
            time.sleep(0.002)


if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
