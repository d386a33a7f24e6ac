"""DescribeCluster (key 60), versions 0-2: the brokers as seen through the listener asked; not the controllers."""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED
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
def describe_cluster(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    if request.endpoint_type == _CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this is the endpoint of a broker; controllers are described by theirs",
        )
    if request.endpoint_type != _BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"there is no endpoint type {request.endpoint_type}",
        )
    brokers = [
        DescribeClusterBroker(
            broker_id=broker.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=broker.rack,
            is_fenced=broker.fenced,
        )
        for broker in call.broker.image.brokers.values()
        for endpoint in broker.endpoints
        if endpoint.name == call.listener.name and (request.include_fenced_brokers or not broker.fenced)
    ]
    asked = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=call.broker.cluster_id,
        controller_id=call.broker.node_id,
        brokers=brokers,
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
    )
