"""Error responses to requests that no controller has handled."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.broker.forwarding.envelope import has_error
from ottla.broker.forwarding.refusals import refuse
from ottla.broker.handlers import load_all
from ottla.wire import codec
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.metadata import MetadataRequest

CODE = ErrorCode.REQUEST_TIMED_OUT
FORWARDED = {route.api_key: route for route in load_all() if route.forwarded}


@pytest.mark.parametrize("route", FORWARDED.values(), ids=[key.name for key in FORWARDED])
def test_each_forwarded_request_has_a_refusal_in_all_versions(route: object) -> None:
    from ottla.broker.registry import Route

    assert isinstance(route, Route)
    assert route.request is not None
    for version in range(route.versions[0], route.versions[1] + 1):
        response = refuse(route.request(), CODE, None, version)
        assert response.SPEC.api_key == route.api_key
        codec.encode(response, version)


def test_each_partition_has_the_error() -> None:
    elections = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0, 1])])
    for version in (0, 1, 2):
        response = refuse(elections, CODE, "late", version)
        assert has_error(response, CODE)
        codec.encode(response, version)
    everything = refuse(ElectLeadersRequest(topic_partitions=None), CODE, None, 2)
    assert has_error(everything, CODE)
    topic = ReassignableTopic(name="a", partitions=[ReassignablePartition(partition_index=3)])
    response = refuse(AlterPartitionReassignmentsRequest(topics=[topic]), CODE, None, 1)
    codec.encode(response, 1)
    assert has_error(response, CODE)


def test_other_requests_are_not_forwarded() -> None:
    with pytest.raises(InvariantViolation):
        refuse(MetadataRequest(), CODE, None, 0)
