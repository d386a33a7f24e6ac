"""DescribeCluster (key 60), versions 0-2: the brokers and their endpoints on the listener of the request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_REQUESTED
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@handles(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, versions=(0, 2))
@dataclass(frozen=True)
class DescribeCluster:
    """Describes the brokers of the newest image."""

    cluster_id: str
    node_id: int
    metadata: MetadataCache

    def handle(self, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
        if request.endpoint_type == _CONTROLLERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="this is the endpoint of a broker; send the request to a controller",
            )
        if request.endpoint_type != _BROKERS:
            return DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message=f"endpoint type {request.endpoint_type} does not exist",
            )
        brokers = [
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker in self.metadata.image.brokers.values()
            for endpoint in broker.endpoints
            if endpoint.name == call.listener.name and (request.include_fenced_brokers or not broker.fenced)
        ]
        requested = request.include_cluster_authorized_operations
        return DescribeClusterResponse(
            cluster_id=self.cluster_id,
            controller_id=self.node_id,
            brokers=brokers,
            cluster_authorized_operations=CLUSTER_OPERATIONS if requested else NOT_REQUESTED,
        )
