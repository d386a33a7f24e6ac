"""SaslHandshake (key 17), versions 0-1, of a client that is authenticated or needs no authentication.

It begins a re-authentication if the session of the client is limited (KIP-368); otherwise it is an error. The first
authentication of a connection is handled by `broker.net.authentication`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.base.errors import ErrorCode
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles_frames
from ottla.broker.requirements import NOTHING
from ottla.wire.apis import ApiKey
from ottla.wire.frames import response_frame
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.net.connection import Connection


@handles_frames(ApiKey.SASL_HANDSHAKE, versions=(0, 1), requires=NOTHING, listeners=BROKER_AND_CONTROLLER)
class SaslHandshake:
    """Begins a re-authentication."""

    @staticmethod
    def handle(connection: Connection, frame: memoryview, body: int, call: Call) -> None:
        authentication = connection.authentication
        if authentication is not None and authentication.reauthenticates():
            authentication.handshake(connection, frame, body, call.api_version, call.correlation_id)
            return
        response = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        connection.respond([response_frame(response, call.api_version, call.correlation_id)])
