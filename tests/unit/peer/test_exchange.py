"""The protocol of a connection: negotiation, correlation, order, limits, deadlines."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.peer.errors import Reason
from ottla.peer.exchange import Exchange, RawResponse, Request
from ottla.wire import codec
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.fetch import FetchRequest, FetchResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

from .fakes import FETCH, METADATA, SETTINGS, Remote, api_versions, error_of, metadata_request, response_to


class Connected:
    """An exchange and its other side."""

    def __init__(self, versions: ApiVersionsResponse | None = None, **settings: Any) -> None:
        self.exchange = Exchange("node 1", "host", msgspec.structs.replace(SETTINGS, **settings))
        self.remote = Remote()
        if versions is not None:
            self.exchange.start()
            self.receive(self.requests()[0], versions)

    def requests(self) -> list[tuple[int, int, int]]:
        self.remote.take(self.exchange.take_output())
        return self.remote.requests()

    def receive(self, request: tuple[int, int, int], message: Any) -> None:
        self.exchange.receive(memoryview(response_to(request, message)[4:]))

    def submit(self, request: Request | None = None) -> Request:
        request = request or metadata_request()
        self.exchange.submit(request)
        return request


def test_requests_wait_for_the_api_versions() -> None:
    node = Connected()
    early = node.submit()
    assert node.requests() == []
    node.exchange.start()
    (versions,) = node.requests()
    assert versions[:2] == (18, 4)
    assert not node.exchange.ready
    node.receive(versions, api_versions())
    assert node.exchange.ready
    ((api_key, version, _),) = node.requests()
    assert (api_key, version) == (METADATA, 13)
    assert not early.promise.done


def test_an_older_broker_receives_api_versions_again_in_version_0() -> None:
    node = Connected()
    node.exchange.start()
    (first,) = node.requests()
    node.exchange.receive(memoryview(response_to((18, 0, first[2]), ApiVersionsResponse(error_code=35))[4:]))
    (second,) = node.requests()
    assert second[1] == 0
    node.receive(second, api_versions(metadata=(0, 5)))
    assert node.exchange.ready
    node.submit()
    assert node.requests()[0][:2] == (METADATA, 5)


def test_the_newest_version_of_both_sides_is_sent() -> None:
    node = Connected(api_versions(metadata=(2, 9)))
    node.submit()
    node.submit(Request(MetadataRequest(topics=[]), MetadataResponse, range(4, 8), 100.0))
    assert [request[1] for request in node.requests()] == [9, 7]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (Request(CreateTopicsRequest(), CreateTopicsResponse, None, 100.0), Reason.NOT_SERVED),
        (
            Request(MetadataRequest(topics=[]), MetadataResponse, range(10, 14), 100.0),
            Reason.UNSUPPORTED_VERSION,
        ),
        (
            Request(MetadataRequest(topics=[]), MetadataResponse, range(0), 100.0),
            Reason.UNSUPPORTED_VERSION,
        ),
    ],
    ids=["API not served", "versions too new", "no version allowed"],
)
def test_a_request_without_common_version_fails_alone(request_: Request, reason: Reason) -> None:
    node = Connected(api_versions(metadata=(2, 9)))
    other = node.submit()
    failed = node.submit(request_)
    assert error_of(failed.promise).reason is reason
    assert not error_of(failed.promise).sent
    assert not other.promise.done
    assert len(node.requests()) == 1


def test_responses_complete_requests_in_order() -> None:
    node = Connected(api_versions())
    requests = [node.submit() for _ in range(3)]
    sent = node.requests()
    assert len({correlation_id for _, _, correlation_id in sent}) == 3
    for index, request in enumerate(requests):
        assert not request.promise.done
        node.receive(sent[index], MetadataResponse(cluster_id=str(index)))
        assert request.promise.result().cluster_id == str(index)
    assert node.exchange.requests == 0
    assert node.exchange.bytes_in_flight == 0


def test_a_response_out_of_order_is_a_protocol_error() -> None:
    node = Connected(api_versions())
    requests = [node.submit(), node.submit()]
    sent = node.requests()
    with pytest.raises(RemoteProtocolError, match="instead of"):
        node.receive(sent[1], MetadataResponse())
    assert not any(request.promise.done for request in requests)


def test_a_response_without_request_is_a_protocol_error() -> None:
    node = Connected(api_versions())
    with pytest.raises(RemoteProtocolError, match="without a request"):
        node.receive((METADATA, 13, 7), MetadataResponse())


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\2", b"\0\0\0\2\0", b"\0\0\0\2\0\xff\xff\xff\xff"])
def test_a_response_that_cannot_be_read_is_a_protocol_error(frame: bytes) -> None:
    node = Connected(api_versions())
    request = node.submit()
    assert node.requests()[0][2] == 2
    with pytest.raises(RemoteProtocolError):
        node.exchange.receive(memoryview(frame))
    node.exchange.fail(Reason.PROTOCOL_ERROR, "no response")
    assert error_of(request.promise).reason is Reason.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "frame", [b"\0\0\0\1", b"\0\0\0\1HTTP/1.1 400 Bad Request", b"\0\0\0\1\0\1" + bytes(20)]
)
def test_a_node_that_is_not_a_broker_is_a_protocol_error(frame: bytes) -> None:
    node = Connected()
    node.exchange.start()
    with pytest.raises(RemoteProtocolError, match="node 1"):
        node.exchange.receive(memoryview(frame))


def test_a_raw_response_is_the_frame_itself() -> None:
    node = Connected(api_versions(fetch=(4, 12)))
    request = node.submit(Request(FetchRequest(), None, None, 100.0))
    (sent,) = node.requests()
    assert sent[:2] == (FETCH, 12)
    frame = memoryview(response_to(sent, FetchResponse(session_id=5))[4:])
    node.exchange.receive(frame)
    raw = request.promise.result()
    assert isinstance(raw, RawResponse)
    assert raw.frame is frame
    assert codec.decode(FetchResponse, raw.frame, raw.version, start=raw.body_start).session_id == 5


def test_too_many_requests_are_rejected() -> None:
    node = Connected(api_versions(), requests_in_flight_max=2)
    node.submit()
    node.submit()
    rejected = node.submit()
    assert error_of(rejected.promise).reason is Reason.OVERLOADED
    assert len(node.requests()) == 2


def test_too_many_bytes_are_rejected_but_one_large_request_is_sent() -> None:
    node = Connected(api_versions(), bytes_in_flight_max=100)
    large = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 200)])
    first = node.submit(Request(large, MetadataResponse, None, 100.0))
    rejected = node.submit()
    assert error_of(rejected.promise).reason is Reason.OVERLOADED
    (sent,) = node.requests()
    node.receive(sent, MetadataResponse())
    assert first.promise.result() == MetadataResponse()
    node.submit()
    node.submit()
    assert len(node.requests()) == 2


def test_a_failure_fails_all_requests_and_reports_which_were_sent() -> None:
    node = Connected()
    queued = node.submit()
    node.exchange.fail(Reason.REFUSED, "refused")
    assert error_of(queued.promise).reason is Reason.REFUSED
    assert not error_of(queued.promise).sent
    node = Connected(api_versions())
    sent = [node.submit(), node.submit()]
    node.exchange.fail(Reason.CLOSED, "closed")
    assert [error_of(request.promise).reason for request in sent] == [Reason.CLOSED, Reason.CLOSED]
    assert all(error_of(request.promise).sent for request in sent)
    assert node.exchange.take_output() == []


def test_deadlines_of_queued_requests_and_of_requests_in_flight() -> None:
    node = Connected()
    short, long = node.submit(metadata_request(10.0)), node.submit(metadata_request(20.0))
    assert node.exchange.next_deadline() == 10.0
    assert not node.exchange.expire(9.9)
    assert not node.exchange.expire(10.0)
    assert error_of(short.promise).reason is Reason.TIMED_OUT
    assert not long.promise.done
    node.exchange.start()
    node.receive(node.requests()[0], api_versions())
    assert node.exchange.next_deadline() == 20.0
    assert not node.exchange.expire(19.9)
    assert node.exchange.expire(20.0)
    assert not long.promise.done, "the owner fails the whole connection"


def test_a_listener_may_submit_the_next_request() -> None:
    node = Connected(api_versions())
    first = node.submit()
    followed: list[Request] = []
    first.promise.when_done(lambda _value, _error: followed.append(node.submit()))
    (sent,) = node.requests()
    node.receive(sent, MetadataResponse())
    assert len(node.requests()) == 1
    assert not followed[0].promise.done


def test_correlation_ids_wrap() -> None:
    node = Connected(api_versions())
    node.exchange._correlation_id = 0x7FFF_FFFF
    request = node.submit()
    (sent,) = node.requests()
    assert sent[2] == 0
    node.receive(sent, MetadataResponse())
    assert request.promise.done
