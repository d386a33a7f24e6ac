"""DescribeCluster (key 60), versions 0-2: the brokers or, on a controller listener, the controllers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.access import NOT_REQUESTED, cluster_operations
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.broker.requirements import cluster, resources
from ottla.quorum.quorum import QuorumStatus
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


@handles(
    ApiKey.DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    versions=(0, 2),
    requires=resources((Operation.DESCRIBE, ResourceType.CLUSTER)),
)
@dataclass(frozen=True)
class DescribeCluster:
    """Describes the brokers of the newest image."""

    authorization: Authorization
    cluster_id: str
    node_id: int
    metadata: MetadataCache

    def handle(self, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
        if request.endpoint_type != _BROKERS:
            return _refuse(request, "this is the endpoint of a broker; send the request to a controller")
        brokers = [
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for _, broker in sorted(self.metadata.image.brokers.items())
            for endpoint in broker.endpoints
            if endpoint.name == call.origin.listener.name
            and (request.include_fenced_brokers or not broker.fenced)
        ]
        return DescribeClusterResponse(
            cluster_id=self.cluster_id,
            controller_id=self.node_id,
            brokers=brokers,
            cluster_authorized_operations=_operations(request, call, self.authorization),
        )


@handles(
    ApiKey.DESCRIBE_CLUSTER,
    DescribeClusterRequest,
    versions=(0, 2),
    listeners=CONTROLLER,
    requires=cluster(Operation.ALTER),
)
@dataclass(frozen=True)
class DescribeControllers:
    """Describes the voters of the quorum. The cluster id is empty while this node does not belong to a cluster."""

    authorization: Authorization
    cluster_id: str
    quorum_status: Callable[[], QuorumStatus]

    def handle(self, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
        if request.endpoint_type != _CONTROLLERS:
            return _refuse(request, "this is the endpoint of a controller; send the request to a broker")
        status = self.quorum_status()
        return DescribeClusterResponse(
            endpoint_type=_CONTROLLERS,
            cluster_id=self.cluster_id,
            controller_id=status.leader_id,
            brokers=[
                DescribeClusterBroker(broker_id=voter.node_id, host=at.host, port=at.port)
                for voter in status.voters
                for at in voter.listeners
                if at.name == call.origin.listener.name
            ],
            cluster_authorized_operations=_operations(request, call, self.authorization),
        )


def _refuse(request: DescribeClusterRequest, mismatch: str) -> DescribeClusterResponse:
    """The response to a request for the other type of endpoint, or for one that does not exist."""
    if request.endpoint_type in (_BROKERS, _CONTROLLERS):
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=mismatch)
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"endpoint type {request.endpoint_type} does not exist",
    )


def _operations(request: DescribeClusterRequest, call: Call, authorization: Authorization) -> int:
    if not request.include_cluster_authorized_operations:
        return NOT_REQUESTED
    return cluster_operations(authorization, call)
