"""The well-behaved client beside the fuzzer: a producer and a consumer of one topic, and a ping of each broker.

It runs in its own process, so that the fuzzer's work does not count as latency. The producer sends a record every few
milliseconds with acks=all; the time to its acknowledgement, and to its delivery to the consumer, is measured. A ping is
an ApiVersions request on an open connection: a broker whose event loop is blocked responds late.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

INTERVAL_S: Final = 0.01
PING_S: Final = 0.02
_PING: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_TIMEOUT_S: Final = 30.0


@dataclass
class Latencies:
    """Measured times in seconds."""

    acknowledged: list[float] = field(default_factory=list)
    delivered: list[float] = field(default_factory=list)
    pings: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


class Phases:
    """The latencies before the fuzzer starts, and while it runs."""

    def __init__(self) -> None:
        self.quiet = self.current = Latencies()

    def begin(self) -> None:
        """The fuzzer starts."""
        self.current = Latencies()


def run(bootstrap: str, topic: str, control: Connection) -> None:
    """Measure until `control` gets its second message, and send the latencies back; the first one begins a phase."""
    found = Phases()
    ended = threading.Event()
    threads = [
        threading.Thread(target=_consume, args=(bootstrap, topic, found, ended)),
        *(threading.Thread(target=_ping, args=(address, found, ended)) for address in bootstrap.split(",")),
    ]
    for thread in threads:
        thread.start()
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    while True:
        if control.poll(INTERVAL_S):
            control.recv()
            if found.current is not found.quiet:
                break
            found.begin()
        at = time.monotonic()

        def done(error: object, message: Message, at: float = at) -> None:
            if error is not None:
                found.current.errors.append(f"produce: {error}")
            else:
                found.current.acknowledged.append(time.monotonic() - at)

        producer.produce(topic, value=struct.pack(">d", at), on_delivery=done)
        producer.poll(0)
    producer.flush(_TIMEOUT_S)
    ended.set()
    for thread in threads:
        thread.join()
    control.send((found.quiet, found.current))


def _consume(bootstrap: str, topic: str, found: Phases, ended: threading.Event) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "canary", "enable.auto.commit": False})
    # Without a group: frames of the fuzzer may delete the topic in which groups are stored.
    partitions = consumer.list_topics(topic, _TIMEOUT_S).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
    while not ended.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        if message.error():
            found.current.errors.append(f"consume: {message.error()}")
        else:
            found.current.delivered.append(time.monotonic() - struct.unpack(">d", message.value() or b"")[0])
    consumer.close()


def _ping(address: str, found: Phases, ended: threading.Event) -> None:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_TIMEOUT_S) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not ended.wait(PING_S):
            at = time.monotonic()
            try:
                sock.sendall(_PING)
                size = int.from_bytes(_receive(sock, 4), "big")
                _receive(sock, size)
            except OSError as error:
                found.current.errors.append(f"ping of {address}: {error!r}")
                return
            found.current.pings.append(time.monotonic() - at)


def _receive(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise ConnectionError("the broker has closed the connection")
        data += part
    return data
