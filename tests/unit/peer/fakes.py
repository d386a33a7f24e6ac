"""Fakes for the ports of peer connections: timers, connection attempts, a transport, and the other node."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, cast

from ottla.base.promise import Promise
from ottla.peer.connect import Cancel, OnConnect
from ottla.peer.connection import Environment
from ottla.peer.errors import PeerError
from ottla.peer.exchange import Request
from ottla.peer.settings import PeerSettings
from ottla.peer.transport import Buffer
from ottla.security.sasl.login import Login
from ottla.wire.frame_reader import LARGE_FRAME_BYTES
from ottla.wire.frames import parse_request_header, response_frame, take_frame
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Message

SETTINGS = PeerSettings(client_id="test", response_bytes_max=1 << 20)
METADATA, FETCH = 3, 1


def api_versions(**served: tuple[int, int]) -> ApiVersionsResponse:
    """An ApiVersions response of a node that serves Metadata and Fetch."""
    ranges = {METADATA: served.get("metadata", (0, 13)), FETCH: served.get("fetch", (4, 18))}
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in ranges.items()
        ]
    )


def metadata_request(deadline: float = 100.0) -> Request:
    from ottla.wire.messages.metadata import MetadataResponse

    return Request(MetadataRequest(topics=[]), MetadataResponse, None, deadline)


class Remote:
    """The other node: reads the requests that were sent to it, and encodes responses."""

    def __init__(self) -> None:
        self.received = bytearray()

    def take(self, buffers: Sequence[Buffer]) -> None:
        self.received += b"".join(buffers)

    def requests(self) -> list[tuple[int, int, int]]:
        """API key, version and correlation id of the requests received since the last call."""
        headers = []
        while (frame := take_frame(self.received)) is not None:
            headers.append(parse_request_header(memoryview(frame))[:3])
        return headers


def response_to(request: tuple[int, int, int], message: Message) -> bytes:
    """A response frame with its size."""
    return response_frame(message, request[1], request[2])


class FakeTimers:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._timers: list[FakeHandle] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None], /) -> FakeHandle:
        handle = FakeHandle(self.now + delay, callback)
        self._timers.append(handle)
        return handle

    @property
    def pending(self) -> int:
        return sum(not timer.cancelled for timer in self._timers)

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [timer for timer in self._timers if not timer.cancelled and timer.at <= end]:
            first = min(due, key=lambda timer: timer.at)
            self._timers.remove(first)
            self.now = max(self.now, first.at)
            first.callback()
        self.now = end


class FakeHandle:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at = at
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class MemoryTransport:
    """A transport whose other end is a `Remote` in the same test."""

    def __init__(self) -> None:
        self.remote = Remote()
        self.closed = False
        self.incoming = bytearray()
        self.ended = False
        self.expected = 1
        self.on_readable: Callable[[], None] = lambda: None
        self.on_failed: Callable[[OSError], None] = lambda _: None

    def start(self, on_readable: Callable[[], None], on_failed: Callable[[OSError], None]) -> None:
        self.on_readable, self.on_failed = on_readable, on_failed

    def receive_into(self, target: memoryview) -> int:
        if not self.incoming and not self.ended:
            raise BlockingIOError
        size = min(len(target), len(self.incoming))
        target[:size] = self.incoming[:size]
        del self.incoming[:size]
        return size

    def expect(self, count: int) -> None:
        self.expected = count

    def send(self, buffers: Sequence[Buffer]) -> None:
        assert not self.closed
        self.remote.take(buffers)

    def close(self) -> None:
        self.closed = True

    def deliver(self, data: bytes) -> None:
        """Bytes of the other node arrive."""
        self.incoming += data
        while self.incoming and not self.closed:
            self.on_readable()

    def end(self) -> None:
        """The other node closes the connection."""
        self.ended = True
        self.on_readable()

    def fail(self, error: OSError) -> None:
        """Sending fails."""
        self.on_failed(error)


class FakeNetwork:
    """Connection attempts that the test completes."""

    def __init__(self) -> None:
        self.attempts: list[tuple[str, int]] = []
        self.cancelled = 0
        self.transports: list[MemoryTransport] = []
        self._on_done: OnConnect | None = None

    def __call__(self, host: str, port: int, on_done: OnConnect, /) -> Cancel:
        self.attempts.append((host, port))
        self._on_done = on_done
        return self._cancel

    def _cancel(self) -> None:
        self.cancelled += 1
        self._on_done = None

    def accept(self) -> MemoryTransport:
        assert self._on_done is not None, "no connection attempt"
        on_done, self._on_done = self._on_done, None
        transport = MemoryTransport()
        self.transports.append(transport)
        on_done(cast(Any, transport), None)
        return transport

    def reject(self, error: OSError) -> None:
        assert self._on_done is not None, "no connection attempt"
        on_done, self._on_done = self._on_done, None
        on_done(None, error)


class RecordingListener:
    """Collects the callbacks of a connection."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def on_connected(self) -> None:
        self.events.append("connected")

    def on_disconnected(self, error: PeerError) -> None:
        self.events.append(error.reason.value)


def environment(timers: FakeTimers, network: FakeNetwork, login: Login | None = None) -> Environment:
    return Environment(
        timers,
        network,
        cast(Any, lambda transport, host: transport),
        random.Random(1),
        memoryview(bytearray(2 * LARGE_FRAME_BYTES)),
        login,
    )


def error_of(promise: Promise[Any]) -> PeerError:
    """The error of a failed promise."""
    assert promise.done
    try:
        promise.result()
    except PeerError as error:
        return error
    raise AssertionError("the promise did not fail")
