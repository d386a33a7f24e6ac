"""DescribeUserScramCredentials (key 50), version 0: the mechanisms and iterations of users (KIP-554)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.security import scram_users
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)


@handles(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    DescribeUserScramCredentialsRequest,
    versions=(0, 0),
    listeners=BROKER_AND_CONTROLLER,
    requires=cluster(Operation.DESCRIBE),
)
@dataclass(frozen=True)
class DescribeUserScramCredentials:
    """Describes the users of the newest image."""

    metadata: MetadataCache

    def handle(
        self, request: DescribeUserScramCredentialsRequest, call: Call
    ) -> DescribeUserScramCredentialsResponse:
        return scram_users.describe(self.metadata.image, request)
