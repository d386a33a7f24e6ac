"""Clients that want to harm: a canary on the same broker must go on being answered, and nothing may break.

Every attack runs against a real process. Afterwards it is alive, holds no more memory than its limits say, and
has logged no exception: a bad request is refused or its connection closed, on purpose.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode, LocalError
from ottla.local.broker_process import BrokerProcess
from ottla.wire import codec
from ottla.wire.frames import request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.conftest import MakeBroker
from tests.support import asking
from tests.support.hostile import BAD_NAMES, RequestMaker
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until

MIB = 1 << 20
PING_ID = 0x7F7F7F7F
PING = request_frame(ApiVersionsRequest(), 0, PING_ID, "hostile")
UNEXPECTED = ("request failed", "Traceback", "task failed", "decision of the controller failed", "unexpected")


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient(Address.parse(broker.bootstrap))


def plain_socket(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=20)


def memory_mib(broker: BrokerProcess, line: str = "VmRSS") -> int:
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(status.split(f"{line}:")[1].split()[0]) // 1024


def check_sound(broker: BrokerProcess) -> None:
    assert broker.running
    said = broker.output()
    assert [word for word in UNEXPECTED if word in said] == []


class Canary:
    """A well-behaved client that sends requests all the time; it fails if one gets no response."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.asked = 0
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._client = connect(broker)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self.asked or not self._stop.wait(0.02):
                assert asking.ping(self._client)
                self.asked += 1
        except BaseException as failure:  # noqa: BLE001 - raised again in `stop`
            self._failure = failure

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._client.__exit__()
        if self._failure is not None:
            raise self._failure

    def start(self) -> None:
        self._thread.start()


@contextmanager
def canary(broker: BrokerProcess) -> Iterator[Canary]:
    bird = Canary(broker)
    bird.start()
    try:
        yield bird
    finally:
        bird.stop()
    assert bird.asked > 0


def attack(broker: BrokerProcess, count: int, play: Callable[[socket.socket], None]) -> list[socket.socket]:
    """Plays the same on many connections at once; they stay open."""
    sockets = [plain_socket(broker) for _ in range(count)]

    def guarded(sock: socket.socket) -> None:
        with suppress(OSError):
            play(sock)

    threads = [threading.Thread(target=guarded, args=(sock,), daemon=True) for sock in sockets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return sockets


def close_all(sockets: Sequence[socket.socket]) -> None:
    for sock in sockets:
        sock.close()


# Memory and fairness


def test_a_size_alone_takes_no_memory(make_broker: MakeBroker) -> None:
    broker = make_broker()
    before = memory_mib(broker)
    with canary(broker):
        header = struct.pack(">ihhih", 100 * MIB, 0, 9, 1, -1)
        sockets = attack(broker, 200, lambda sock: sock.sendall(header))
    assert memory_mib(broker, "VmHWM") < before + 40
    close_all(sockets)
    check_sound(broker)


def test_many_large_frames_take_turns(make_broker: MakeBroker) -> None:
    limit = 100 * MIB
    broker = make_broker({"queued.max.request.bytes": str(limit), "socket.request.max.bytes": str(40 * MIB)})

    def push(sock: socket.socket) -> None:
        sock.settimeout(3)
        sock.sendall(struct.pack(">ihhih", 30 * MIB, 0, 9, 1, -1))
        for _ in range(29):
            sock.sendall(bytes(MIB))

    before = memory_mib(broker)
    with canary(broker):
        sockets = attack(broker, 16, push)
    # Unbounded, these frames would take 480 MiB.
    assert memory_mib(broker, "VmHWM") < before + 100 + 25 + 2 * 40 + 60
    close_all(sockets)
    with connect(broker) as client:
        assert asking.create(client, "after", 1, {"max.message.bytes": str(30 * MIB)}) == ErrorCode.NONE
        assert asking.produce(client, "after", 0, [bytes(20 * MIB)]).error == ErrorCode.NONE
    check_sound(broker)


def test_clients_that_never_read_what_they_fetch(make_broker: MakeBroker) -> None:
    broker = make_broker({"queued.max.request.bytes": str(100 * MIB)})
    with connect(broker) as client:
        assert asking.create(client, "t") == ErrorCode.NONE
        for _ in range(60):
            assert asking.produce(client, "t", 0, [bytes(1_000_000)]).error == ErrorCode.NONE
    frame = request_frame(asking.fetch_request("t", 0, 0, 55 * MIB), asking.FETCH_VERSION, 1, "hostile")
    before = memory_mib(broker)
    with canary(broker):
        sockets = attack(broker, 30, lambda sock: sock.sendall(frame))
        with connect(broker) as client:
            assert asking.fetch(client, "t").error == ErrorCode.NONE
    assert memory_mib(broker, "VmHWM") < before + 320
    close_all(sockets)
    check_sound(broker)


def test_a_flood_of_requests_without_responses_is_throttled(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with connect(broker) as client:
        assert asking.create(client, "t") == ErrorCode.NONE
    frame = asking.produce_frame("t", 0, [bytes(1_000_000)], acks=0)
    before = memory_mib(broker)
    with canary(broker):

        def flood(sock: socket.socket) -> None:
            for _ in range(40):
                sock.sendall(frame)

        sockets = attack(broker, 8, flood)
        with connect(broker) as client:
            wait_until(lambda: asking.fetch(client, "t").high_watermark == 320, "all of it to be written")
    assert memory_mib(broker, "VmHWM") < before + 300
    close_all(sockets)
    check_sound(broker)


def test_pipelining_without_reading(make_broker: MakeBroker) -> None:
    broker = make_broker()
    burst = PING * 20_000

    def push(sock: socket.socket) -> None:
        sock.settimeout(1)
        sock.sendall(burst)

    before = memory_mib(broker)
    with canary(broker):
        sockets = attack(broker, 40, push)
    assert memory_mib(broker, "VmHWM") < before + 100
    close_all(sockets)
    check_sound(broker)


def test_all_requests_pipelined_behind_a_slow_request_get_responses(broker: BrokerProcess) -> None:
    """More than a receive buffer of requests that have to wait their turn."""
    count = 30_000
    with connect(broker) as client:
        asking.create(client, "slow")
        sender = threading.Thread(
            target=client.send, args=(asking.produce_frame("slow", 0, [bytes(900_000)]) + PING * count,)
        )
        sender.start()
        answers = [client.read_frame() for _ in range(count + 1)]
        sender.join(20)
    assert not any(isinstance(answer, Closed) for answer in answers)
    assert all(answer[:4] == struct.pack(">i", PING_ID) for answer in answers[1:])  # type: ignore[index]


@pytest.mark.torture
def test_a_steady_stream_of_frames_is_not_taken_for_a_slow_one(make_broker: MakeBroker) -> None:
    """Whenever the broker looks, this client is in the middle of a frame; but never of the same one."""
    broker = make_broker()
    with connect(broker) as client:
        assert asking.create(client, "t") == ErrorCode.NONE
    frame = asking.produce_frame("t", 0, [b"x"], acks=0)
    sent, until = 0, time.monotonic() + 13
    pause = threading.Event()
    with plain_socket(broker) as sock:
        sock.sendall(frame[:-1])
        while time.monotonic() < until:
            sock.sendall(frame[-1:] + frame[:-1])
            sent += 1
            pause.wait(0.05)
        sock.sendall(frame[-1:])
        with connect(broker) as client:
            wait_until(lambda: asking.fetch(client, "t").high_watermark == sent + 1, "every record")


# Names and numbers


def garbled(broker: BrokerProcess, seed: int, seconds: float) -> int:
    """Sends requests that are odd in content or in structure; the number sent."""
    with connect(broker) as client:
        for name in ("victim-a", "victim-b"):
            asking.create(client, name, 2)
        known = {name: topic.topic_id for name, topic in asking.topics(client).items()}
    rng = random.Random(seed)
    maker = RequestMaker(rng, {name: known[name] for name in ("victim-a", "victim-b")})
    until, sent = time.monotonic() + seconds, 0
    client = connect(broker)
    while time.monotonic() < until or sent < len(maker.targets):
        message, version = maker.targets[sent % len(maker.targets)]
        sent += 1
        try:
            frame = maker.frame(message, version, rng.choice(("hostile", None, "x\nforged", "y" * 5000)))
        except LocalError:
            continue  # this version cannot say what was drawn
        if rng.random() < 0.5:
            frame = maker.mutated(frame)
        if not _answered(client, frame):
            client.__exit__()
            client = connect(broker)
    client.__exit__()
    return sent


def _answered(client: RawClient, frame: bytes) -> bool:
    """Whether the connection survived the frame."""
    try:
        client.send(frame + PING)
        while not isinstance(answer := client.read_frame(), Closed):
            if answer[:4] == struct.pack(">i", PING_ID):
                return True
    except ConnectionError:
        pass
    return False


def check_confined(broker: BrokerProcess) -> None:
    """Nothing was made outside the data directory, and inside only what a topic may be called."""
    around = {path.name for path in broker.data.parent.iterdir()}
    assert around <= {broker.data.name, f"{broker.data.name}.out"}
    assert not Path("/tmp/escaped").exists()  # noqa: S108 - one of the names that were tried
    for path in broker.data.iterdir():
        assert "\n" not in path.name
        assert not path.name.startswith("..")


def test_odd_and_broken_requests_for_every_api(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with canary(broker):
        sent = garbled(broker, seed=20_26, seconds=8)
    assert sent >= 200
    check_sound(broker)
    check_confined(broker)
    assert "\nforged" not in broker.output()
    assert max(map(len, broker.output().splitlines())) < 10_000
    assert memory_mib(broker) < 300
    assert broker.stop() == 0
    broker.start()


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
def test_odd_and_broken_requests_for_a_long_time(seed: int, make_broker: MakeBroker) -> None:
    broker = make_broker()
    with canary(broker):
        garbled(broker, seed, seconds=120)
    check_sound(broker)
    check_confined(broker)
    assert broker.stop() == 0
    broker.start()


def test_bad_names_never_become_files(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with connect(broker) as client:
        for name in BAD_NAMES:
            if name in ("x" * 249, "escaped.log", "__consumer_offsets"):
                continue
            assert asking.create(client, name) != ErrorCode.NONE, name
            assert asking.produce(client, name).error != ErrorCode.NONE
    check_confined(broker)
    check_sound(broker)


def test_a_fetch_of_ten_thousand_partitions(broker: BrokerProcess) -> None:
    wanted = [FetchPartition(partition=index, partition_max_bytes=MIB) for index in range(10_000)]
    with connect(broker) as client, canary(broker):
        asking.create(client, "wide")
        request = FetchRequest(
            max_wait_ms=0, max_bytes=MIB, topics=[FetchTopic(topic="wide", partitions=wanted)]
        )
        client.send(request_frame(request, asking.FETCH_VERSION, 1, "hostile"))
        frame = client.read_frame()
    assert not isinstance(frame, Closed)
    budget = codec.Budget(64 * MIB)
    answer = codec.decode(FetchResponse, frame, asking.FETCH_VERSION, budget=budget, start=4)
    found = {one.partition_index: one.error_code for one in answer.responses[0].partitions}
    assert len(found) == 10_000
    assert found[0] == ErrorCode.NONE
    assert found[9_999] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# Being stopped and killed in the middle


def test_a_stop_under_load_loses_nothing(make_broker: MakeBroker) -> None:
    broker = make_broker()
    with connect(broker) as client:
        assert asking.create(client, "t") == ErrorCode.NONE
    acknowledged: list[bytes] = []

    def load() -> None:
        with suppress(AssertionError, OSError), connect(broker) as client:
            for number in range(1_000_000):
                if asking.produce(client, "t", 0, [b"%d" % number]).error == ErrorCode.NONE:
                    acknowledged.append(b"%d" % number)

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    wait_until(lambda: len(acknowledged) > 200, "some load")
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.stop() == 0  # a second signal
    thread.join(20)
    assert (broker.data / ".kafka_cleanshutdown").exists()
    broker.start()
    found: list[bytes] = []
    with connect(broker) as client:
        while got := asking.fetch(client, "t", 0, len(found)).values:
            found += got
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 1
    check_sound(broker)


def test_a_stop_while_starting(make_broker: MakeBroker, tmp_path: Path) -> None:
    """At whatever moment: the directory can be opened afterwards."""
    data = tmp_path / "early"
    pause = threading.Event()
    for delay in (0.0, 0.15, 0.3, 0.45, 0.6):
        process = subprocess.Popen(
            BrokerProcess(data).command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        pause.wait(delay)
        process.terminate()
        assert process.wait(30) in (0, -signal.SIGTERM)
    with BrokerProcess(data) as broker, connect(broker) as client:
        assert asking.create(client, "t") == ErrorCode.NONE


def _churn(client: RawClient, number: int) -> None:
    """Create a topic, let it grow, delete one."""
    asking.create(client, f"churn-{number}", 3)
    grown = CreatePartitionsTopic(name=f"churn-{number}", count=5)
    client.ask(CreatePartitionsRequest(topics=[grown], timeout_ms=5000), 3, CreatePartitionsResponse)
    gone = DeleteTopicState(name=f"churn-{number - 1}")
    client.ask(DeleteTopicsRequest(topics=[gone], timeout_ms=5000), 6, DeleteTopicsResponse)


def test_killed_while_topics_come_and_go(make_broker: MakeBroker) -> None:
    broker = make_broker()
    pause = threading.Event()
    for life in range(4):
        stop = threading.Event()

        def churn(life: int = life, stop: threading.Event = stop) -> None:
            with suppress(AssertionError, OSError), connect(broker) as client:
                number = life * 1000
                while not stop.is_set():
                    number += 1
                    _churn(client, number)

        thread = threading.Thread(target=churn, daemon=True)
        thread.start()
        pause.wait(0.3 + 0.13 * life)
        broker.kill()
        stop.set()
        thread.join(20)
        broker.start()
        with connect(broker) as client:
            wanted = {
                f"{name}-{one.partition_index}"
                for name, topic in asking.topics(client).items()
                for one in topic.partitions
            }
            assert all(
                one.leader_id == 1 for topic in asking.topics(client).values() for one in topic.partitions
            )
        live = {
            path.name
            for path in broker.data.iterdir()
            if path.is_dir() and not path.name.endswith(("-delete", "-stray"))
        }
        assert live == wanted | {"__cluster_metadata-0"}
    check_sound(broker)


@pytest.mark.parametrize("streams", ["closed", "broken", "full"])
def test_a_broker_outlives_its_standard_streams(streams: str, tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    command = broker.command()
    if streams == "closed":
        process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command])
    elif streams == "broken":
        reading, writing = os.pipe()
        os.close(reading)
        process = subprocess.Popen(command, stdout=writing, stderr=writing)
        os.close(writing)
    else:
        with Path("/dev/full").open("wb") as full:
            process = subprocess.Popen(command, stdout=full, stderr=full)

    def serves() -> bool:
        with suppress(OSError), connect(broker) as client:
            return asking.ping(client)
        return False

    try:
        wait_until(serves, "the broker to serve")
        with plain_socket(broker) as sock:
            sock.sendall(b"GET / HTTP/1.1\r\n\r\n")  # something to log
            assert sock.recv(1) == b""
        assert serves()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    finally:
        process.kill()
        process.wait()
