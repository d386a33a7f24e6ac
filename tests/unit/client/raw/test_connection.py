"""A connection to a fake broker."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from ottla.client.raw.connection import Connection
from ottla.client.raw.errors import ConnectionLost, Unsupported
from ottla.client.raw.settings import ClientSettings
from ottla.wire import codec
from ottla.wire.frames import parse_request_header, response_frame
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.waiting import wait_until

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=18, max_version=4),
        ApiVersion(api_key=0, min_version=3, max_version=9),
        ApiVersion(api_key=3, max_version=9),
        ApiVersion(api_key=16, min_version=90, max_version=99),
    ],
    finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2)],
)
REQUEST_TIMEOUT_MS = 2_000
Answer = Callable[[bytes], bytes | None]


def versions(frame: bytes) -> bytes:
    _, version, correlation_id, _, _ = parse_request_header(memoryview(frame))
    return response_frame(VERSIONS, version, correlation_id)


def metadata(frame: bytes) -> bytes:
    _, version, correlation_id, _, _ = parse_request_header(memoryview(frame))
    return response_frame(MetadataResponse(cluster_id=str(correlation_id)), version, correlation_id)


class Script:
    """Answers the requests of one connection by a list of functions; None ends the connection."""

    def __init__(self, *answers: Answer) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._responses = answers
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        accepted, _ = self._listener.accept()
        with accepted, contextlib.suppress(OSError):
            stream = accepted.makefile("rb")
            for answer in self._responses:
                said = answer(stream.read(struct.unpack(">i", stream.read(4))[0]))
                if said is None:
                    return
                accepted.sendall(said)
            stream.read()

    def close(self) -> None:
        self._thread.join(10)
        self._listener.close()


@contextlib.contextmanager
def talking(*answers: Answer) -> Iterator[Connection]:
    script = Script(*answers)
    settings = ClientSettings(bootstrap=(("127.0.0.1", script.port),), request_timeout_ms=REQUEST_TIMEOUT_MS)
    connection = Connection("127.0.0.1", script.port, settings, None)
    try:
        yield connection
    finally:
        connection.close()
        script.close()


def test_the_newest_common_version_and_the_features_are_negotiated() -> None:
    with talking(versions, metadata) as connection:
        assert connection.version_of(MetadataRequest) == 9
        assert connection.version_of(MetadataRequest, newest=4) == 4
        assert connection.features == {"transaction.version": 2}
        assert connection.request(MetadataRequest(), MetadataResponse).cluster_id == "2"


def test_a_broker_without_a_common_version_is_rejected() -> None:
    with (
        talking(versions) as connection,
        pytest.raises(Unsupported, match="serves versions 90 to 99 of ListGroups"),
    ):
        connection.request(ListGroupsRequest(), ListGroupsResponse)


def test_an_old_broker_gets_api_versions_again_in_version_0() -> None:
    def too_new(frame: bytes) -> bytes:
        correlation_id = parse_request_header(memoryview(frame))[2]
        return response_frame(ApiVersionsResponse(error_code=35), 0, correlation_id)

    with talking(too_new, versions) as connection:
        assert connection.version_of(MetadataRequest) == 9


def test_responses_may_be_received_in_any_order_or_discarded() -> None:
    with talking(versions, metadata, metadata, metadata) as connection:
        first, second, third = (connection.send(MetadataRequest()) for _ in range(3))
        connection.discard(second)
        assert connection.receive(third, MetadataResponse).cluster_id == str(third.correlation)
        assert connection.receive(first, MetadataResponse).cluster_id == str(first.correlation)
        connection.close()
        with pytest.raises(ConnectionLost):
            connection.receive(second, MetadataResponse)


def test_a_response_that_was_kept_is_discarded_too() -> None:
    with talking(versions, metadata, metadata) as connection:
        first, second = (connection.send(MetadataRequest()) for _ in range(2))
        connection.receive(second, MetadataResponse)
        connection.discard(first)
        connection.close()
        with pytest.raises(ConnectionLost):
            connection.receive(first, MetadataResponse)


def test_the_timeout_includes_the_wait_time_of_the_request() -> None:
    waits: list[bool] = []

    def slow(frame: bytes) -> bytes:
        allowed = REQUEST_TIMEOUT_MS / 1000 + 3600
        wait_until(lambda: connection._socket.gettimeout() == allowed, "a client that waits", 2)
        waits.append(True)
        return metadata(frame)

    with talking(versions, slow) as connection:
        connection.receive(connection.send(MetadataRequest()), MetadataResponse, extra_timeout_s=3600)
    assert waits


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda _: struct.pack(">i", -1), "announced a response of -1 bytes"),
        (lambda _: struct.pack(">i", 2**31 - 1), "announced a response of 2147483647 bytes"),
        (lambda _: struct.pack(">iiq", 12, 999, 0), "sent response 999"),
        (
            lambda frame: struct.pack(">ii", 4, parse_request_header(memoryview(frame))[2]),
            "cannot be decoded",
        ),
        (lambda _: None, "closed the connection"),
    ],
    ids=["negative size", "huge size", "not asked", "cut off", "ends"],
)
def test_invalid_responses_close_the_connection(answer: Answer, said: str) -> None:
    with talking(versions, answer) as connection:
        with pytest.raises(ConnectionLost, match=said):
            connection.request(MetadataRequest(), MetadataResponse)
        assert connection.closed
        with pytest.raises(ConnectionLost):
            connection.request(MetadataRequest(), MetadataResponse)


@pytest.mark.parametrize("before", [[], [versions], [versions, metadata, metadata]])
def test_a_listener_that_closes_new_connections_may_need_another_protocol(before: list[Answer]) -> None:
    def connect_and_request() -> None:
        with talking(*before, lambda _: None) as connection:
            for _ in range(3):
                connection.request(MetadataRequest(), MetadataResponse)

    with pytest.raises(ConnectionLost) as lost:
        connect_and_request()
    is_new = len(before) < 3
    assert str(lost.value).endswith("(check that security.protocol matches the listener)") == is_new


def test_a_request_may_be_larger_than_one_system_call_sends() -> None:
    sizes = [5 << 20, 10, 5 << 20]
    data = [PartitionProduceData(index=at, records=bytes([at]) * size) for at, size in enumerate(sizes)]
    taken: list[bytes] = []

    def produced(frame: bytes) -> bytes:
        taken.append(frame)
        _, version, correlation_id, _, _ = parse_request_header(memoryview(frame))
        return response_frame(ProduceResponse(), version, correlation_id)

    with talking(versions, produced) as connection:
        connection.request(
            ProduceRequest(topic_data=[TopicProduceData(partition_data=data)]), ProduceResponse
        )
    (frame,) = taken
    _, version, _, _, start = parse_request_header(memoryview(frame))
    read = codec.decode(ProduceRequest, frame, version, start=start)
    assert [bytes(one.records or b"") for one in read.topic_data[0].partition_data] == [
        bytes([at]) * size for at, size in enumerate(sizes)
    ]


def test_an_address_without_listener_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = ClientSettings(bootstrap=(("127.0.0.1", port),))
    with pytest.raises(ConnectionLost, match="cannot be reached"):
        Connection("127.0.0.1", port, settings, None)
