"""The limits that are on by default or set by Kafka's names: connections, idleness, slowness, sessions, bytes."""

from __future__ import annotations

import socket
import struct
import threading
import time

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.conftest import MakeBroker
from tests.support import asking
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient(Address.parse(broker.bootstrap))


def is_closed(client: RawClient) -> bool:
    try:
        return not asking.ping(client)
    except OSError:
        return True


def test_connections_above_max_connections_are_closed_at_once(make_broker: MakeBroker) -> None:
    broker = make_broker({"max.connections": "20"})
    clients = [connect(broker) for _ in range(20)]
    assert all(asking.ping(one) for one in clients)
    flood = [connect(broker) for _ in range(200)]
    assert all(is_closed(one) for one in flood)
    assert all(asking.ping(one) for one in clients)
    clients.pop().__exit__()

    def place_is_free() -> bool:
        with connect(broker) as late:
            return not is_closed(late)

    wait_until(place_is_free, "the place of a connection that left")
    for one in clients + flood:
        one.__exit__()
    assert "Traceback" not in broker.output()


def test_connections_of_one_address(make_broker: MakeBroker) -> None:
    broker = make_broker({"max.connections.per.ip": "3", "max.connections.per.ip.overrides": ""})
    clients = [connect(broker) for _ in range(3)]
    assert all(asking.ping(one) for one in clients)
    with connect(broker) as fourth:
        assert is_closed(fourth)
    for one in clients:
        one.__exit__()


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(make_broker: MakeBroker) -> None:
    broker = make_broker({"connections.max.idle.ms": "1500"})
    with connect(broker) as idle, connect(broker) as busy:
        assert asking.ping(idle)
        begun = time.monotonic()
        pause = threading.Event()
        while time.monotonic() - begun < 4:
            assert asking.ping(busy)
            pause.wait(0.1)
        assert is_closed(idle)


def test_a_frame_that_arrives_byte_by_byte_times_out(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with socket.create_connection(("127.0.0.1", broker.port), timeout=30) as slow:
        slow.sendall(struct.pack(">ihh", 1000, 18, 0))
        pause = threading.Event()
        begun = time.monotonic()
        with connect(broker) as other:
            while time.monotonic() - begun < 25:
                try:
                    slow.sendall(b"\0")
                except OSError:
                    break
                assert asking.ping(other)
                pause.wait(0.25)
            else:
                raise AssertionError("one byte at a time was tolerated")
    assert "too slowly" in broker.output()


def test_fetch_sessions_beyond_the_cache_are_refused_not_harmful(make_broker: MakeBroker) -> None:
    broker = make_broker({"max.incremental.fetch.session.cache.slots": "5"})
    with connect(broker) as client:
        assert asking.create(client, "t") == ErrorCode.NONE
        wanted = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
        given = []
        for _ in range(50):
            request = FetchRequest(
                max_wait_ms=0, max_bytes=1000, session_id=0, session_epoch=0, topics=wanted
            )
            answer = client.ask(request, asking.FETCH_VERSION, FetchResponse)
            assert not isinstance(answer, Closed)
            assert answer.error_code == ErrorCode.NONE
            assert answer.responses[0].partitions[0].error_code == ErrorCode.NONE
            given.append(answer.session_id)
    assert len([one for one in given if one]) == 5


def test_half_open_connections_do_no_harm(make_broker: MakeBroker) -> None:
    """Resets at every stage: after the size, within the header, with an answer on its way."""
    broker = make_broker()
    reset = struct.pack("ii", 1, 0)
    frame = asking.produce_frame("none", 0)
    for sent in (b"", frame[:2], frame[:10], frame, frame * 50):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", broker.port), timeout=10) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
                sock.sendall(sent)
    with connect(broker) as client:
        assert asking.ping(client)
    assert "Traceback" not in broker.output()
