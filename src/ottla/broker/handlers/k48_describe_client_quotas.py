"""DescribeClientQuotas (key 48), versions 0-1: the quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import cluster
from ottla.controller.settings import client_quotas
from ottla.security.resources import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


@handles(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    DescribeClientQuotasRequest,
    versions=(0, 1),
    requires=cluster(Operation.DESCRIBE_CONFIGS),
)
@dataclass(frozen=True)
class DescribeClientQuotas:
    """Describes the quotas of the newest image."""

    metadata: MetadataCache

    def handle(self, request: DescribeClientQuotasRequest, call: Call) -> DescribeClientQuotasResponse:
        return client_quotas.describe(self.metadata.image, request)
