"""Client requests that brokers forward to the active controller.

The frame of a request is sent unchanged in an Envelope, through the controller channel, which repeats it while no
controller is active. The response is returned when this node has applied what the controller had applied. If it does
not apply that in time, it responds nevertheless: the controller has committed the result.

No active controller within `request.timeout.ms` is REQUEST_TIMED_OUT. An error in the Envelope response is
UNKNOWN_SERVER_ERROR, because clients do not expect it; UNSUPPORTED_VERSION closes the connection of the client, which
then negotiates versions again. Both as in Kafka.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final, TypeVar, cast

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.promise import Promise
from ottla.base.settled import settled
from ottla.broker.forwarding.controller_channel import ControllerChannel
from ottla.broker.forwarding.envelope import NOT_STATED, ForwardedResponse, unwrap, wrap
from ottla.broker.forwarding.refusals import refuse
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.controller.port import ControllerPort
from ottla.metadata.publisher import MetadataPublisher
from ottla.peer.connection import Timers
from ottla.peer.errors import PeerError, Reason
from ottla.wire import codec
from ottla.wire.frames import request_frame
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)
_SIZE_BYTES: Final = 4
_CREATION_WAIT_S: Final = 2.0
"""How long a request of a client waits for the topic that it creates. Later requests of its connection wait, too, and
a client that repeats its request finds the topic. Kafka does not wait at all."""


class Forwarder:
    """Forwards requests of the clients of this broker."""

    def __init__(
        self,
        channel: ControllerChannel,
        controller: ControllerPort,
        is_active: Callable[[], bool],
        publisher: MetadataPublisher,
        timers: Timers,
        timeout_s: float,
    ) -> None:
        self._channel = channel
        self._controller = controller
        self.is_active = is_active
        """Whether the controller of this process is the active one: then nothing is forwarded."""
        self._publisher = publisher
        self._timers = timers
        self._timeout_s = timeout_s

    def forward(
        self, frame: memoryview, body: int, request: type[Message], api_key: int, call: Call
    ) -> Promise[Any]:
        """Forward the frame of a client; the promise is kept with the encoded message of the response.

        It is kept with a message if no controller has handled the request.
        """
        data = bytes(frame)
        promise: Promise[Any] = Promise()
        sent = self._channel.request(wrap(data, call.origin), ForwardedResponse, timeout_s=self._timeout_s)

        def done(response: ForwardedResponse | None, error: BaseException | None) -> None:
            try:
                code = _error_of(response, error)
                if code is None:
                    assert response is not None  # noqa: S101 - for the type checker
                    message = unwrap(response, api_key, call.api_version, call.correlation_id)
                    self._when_applied(response.applied_offset, lambda: promise.keep(message))
                else:
                    decoded = codec.decode(request, data, call.api_version, start=body)
                    promise.keep(refuse(decoded, code, None, call.api_version))
            except Exception as failure:  # noqa: BLE001 - the router closes the connection
                promise.fail(failure)

        sent.when_done(done)
        return promise

    # Requests of this broker and of its handlers

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics: internal topics, and those that clients request metadata of.

        Without a response of the controller within two seconds they may be created later.
        """
        if self.is_active():
            return await self._controller.create_topics(request)
        return await self._request(request, CreateTopicsResponse, wait_s=_CREATION_WAIT_S)

    async def alter_configs(self, request: AlterConfigsRequest, client: Origin) -> AlterConfigsResponse:
        """Alter settings for a client, at the active controller in another process."""
        return await self._request(request, AlterConfigsResponse, client)

    async def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest, client: Origin
    ) -> IncrementalAlterConfigsResponse:
        """Alter settings for a client, at the active controller in another process."""
        return await self._request(request, IncrementalAlterConfigsResponse, client)

    async def request_of_client(self, request: Message, response: type[R], call: Call) -> R:
        """Send a request of a client to the active controller, in this process or not, with its principal."""
        return await self._request(request, response, call.origin)

    async def _request(
        self, request: Message, response: type[R], client: Origin | None = None, wait_s: float = inf
    ) -> R:
        api_key, version = request.SPEC.api_key, request.SPEC.versions[-1]
        frame = request_frame(request, version, 0, None)[_SIZE_BYTES:]
        timeout_s = min(wait_s, self._timeout_s)
        sent = self._channel.request(wrap(frame, client), ForwardedResponse, timeout_s=timeout_s)
        try:
            forwarded, error = await settled(sent), None
        except PeerError as failure:
            forwarded, error = None, failure
        code = _error_of(forwarded, error)
        if code is not None:
            return cast(R, refuse(request, code, None, version))
        assert forwarded is not None  # noqa: S101 - for the type checker
        message = codec.decode(response, unwrap(forwarded, api_key, version, 0), version)
        applied: Promise[None] = Promise()
        self._when_applied(forwarded.applied_offset, lambda: applied.keep(None))
        await settled(applied)
        return message

    def _when_applied(self, offset: int, respond: Callable[[], None]) -> None:
        """Call `respond` once: when this node has applied `offset`, or after the timeout."""
        if offset == NOT_STATED or self._publisher.applied_offset >= offset:
            respond()
            return
        waiting = True

        def finish() -> None:
            nonlocal waiting
            if waiting:
                waiting = False
                timer.cancel()
                respond()

        timer = self._timers.call_later(self._timeout_s, finish)
        self._publisher.when_applied(offset, finish)


def _error_of(response: ForwardedResponse | None, error: BaseException | None) -> ErrorCode | None:
    """The error for the client; raises what closes its connection."""
    if response is not None:
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise RemoteProtocolError("the controller does not serve this version")
        return ErrorCode.UNKNOWN_SERVER_ERROR if response.error_code else None
    if not isinstance(error, PeerError):
        raise error or RemoteProtocolError("no response")
    if error.reason is Reason.UNSUPPORTED_VERSION:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.REQUEST_TIMED_OUT
