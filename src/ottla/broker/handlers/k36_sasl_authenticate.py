"""SaslAuthenticate (key 36), versions 0-2, after authentication or without SASL: an error.

Tokens of an authentication are handled by `broker.net.authentication`.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import NOTHING
from ottla.wire.apis import ApiKey
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


@handles(
    ApiKey.SASL_AUTHENTICATE,
    SaslAuthenticateRequest,
    versions=(0, 2),
    requires=NOTHING,
    listeners=BROKER_AND_CONTROLLER,
)
class SaslAuthenticate:
    """Refuses tokens outside of an authentication."""

    @staticmethod
    def handle(request: SaslAuthenticateRequest, call: Call) -> SaslAuthenticateResponse:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
