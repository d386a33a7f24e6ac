"""Fake brokers on real sockets, with responses set by the test."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from ottla.wire import codec
from ottla.wire.frames import parse_request_header, response_frame
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
)
from ottla.wire.messages.describe_configs import DescribeConfigsRequest
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import ListOffsetsRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.schema import Message

SPOKEN: tuple[type[Message], ...] = (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    DescribeConfigsRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    ProduceRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
_BY_KEY = {request.SPEC.api_key: request for request in SPOKEN}
Handler = Callable[[Message], Message | None]


class FakeBroker:
    """Answers every connection by `handler`; None ends the connection. Closed with the test."""

    def __init__(self, handler: Handler) -> None:
        self.lacks: type[Message] | None = None
        """What it does not speak."""
        self._handler = handler
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, struct.error):
            stream = connection.makefile("rb")
            while True:
                frame = stream.read(struct.unpack(">i", stream.read(4))[0])
                api_key, version, correlation_id, _, start = parse_request_header(memoryview(frame))
                request = codec.decode(_BY_KEY[api_key], frame, version, start=start)
                is_first = isinstance(request, ApiVersionsRequest)
                answer = self._versions() if is_first else self._handler(request)
                if answer is None:
                    return
                connection.sendall(response_frame(answer, version, correlation_id))

    def _versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(
                    api_key=one.SPEC.api_key,
                    min_version=one.SPEC.versions[0],
                    max_version=one.SPEC.versions[-1],
                )
                for one in SPOKEN
                if one is not self.lacks
            ],
            finalized_features=[FinalizedFeatureKey(name="transaction.version", max_version_level=2)],
        )

    def hang_up(self) -> None:
        """As a broker that restarts: all connections end, new ones are welcome."""
        _end(*self._connections)
        self._connections.clear()

    def close(self) -> None:
        _end(self._listener, *self._connections)


def _end(*sockets: socket.socket) -> None:
    # Shut down first: closing alone does not wake a thread that waits in accept or read.
    for one in sockets:
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
