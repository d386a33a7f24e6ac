"""DescribeQuorum (key 55), versions 0-2: leader, voters and observers of the metadata log."""

from __future__ import annotations

from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse


@handles(ApiKey.DESCRIBE_QUORUM, DescribeQuorumRequest, versions=(0, 2))
def describe_quorum(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    return call.broker.controller.describe_quorum(request)
