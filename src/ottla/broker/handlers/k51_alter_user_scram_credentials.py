"""AlterUserScramCredentials (key 51), version 0: stores and deletes credentials of users (KIP-554)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.port import ControllerPort
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)


@handles(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    AlterUserScramCredentialsRequest,
    versions=(0, 0),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class AlterUserScramCredentials:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(
        self, request: AlterUserScramCredentialsRequest, call: Call
    ) -> AlterUserScramCredentialsResponse:
        return await self.controller.alter_user_scram_credentials(request)
