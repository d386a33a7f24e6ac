"""Error responses to requests that no handler has got."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.broker.forwarding.envelope import has_error
from ottla.broker.forwarding.refusals import refuse
from ottla.broker.handlers import load_all
from ottla.broker.registry import Route
from ottla.wire import codec
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

CODE = ErrorCode.REQUEST_TIMED_OUT
REFUSED = [route for route in load_all() if route.forwarded or route.requires.cluster]


@pytest.mark.parametrize("route", REFUSED, ids=[route.handler.__name__ for route in REFUSED])
def test_each_forwarded_request_has_a_refusal_in_all_versions(route: Route) -> None:
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


def test_a_controller_refuses_partitions_in_old_versions_and_the_fetch_in_new_ones() -> None:
    topic = FetchTopic(topic="a", partitions=[FetchPartition(partition=3)])
    for version in range(4, 19):
        response = refuse(FetchRequest(session_id=5, topics=[topic]), CODE, None, version)
        assert isinstance(response, FetchResponse)
        assert (response.error_code, response.session_id) == (CODE, 5)
        found = [each.error_code for one in response.responses for each in one.partitions]
        assert found == ([CODE] if version < 13 else [])


def test_each_marker_has_the_error_in_its_partitions() -> None:
    marker = WritableTxnMarker(
        producer_id=7, topics=[WritableTxnMarkerTopic(name="a", partition_indexes=[0, 1])]
    )
    response = refuse(WriteTxnMarkersRequest(markers=[marker]), CODE, None, 1)
    assert isinstance(response, WriteTxnMarkersResponse)
    (refused,) = response.markers
    assert [each.error_code for each in refused.topics[0].partitions] == [CODE, CODE]


def test_a_refused_description_of_the_quorum_always_has_a_message() -> None:
    for version, given, expected in ((1, "why", ""), (2, "why", "why"), (2, None, "REQUEST_TIMED_OUT")):
        response = refuse(DescribeQuorumRequest(), ErrorCode.REQUEST_TIMED_OUT, given, version)
        assert isinstance(response, DescribeQuorumResponse)
        assert response.error_message == expected


def test_other_requests_have_no_refusal() -> None:
    with pytest.raises(InvariantViolation):
        refuse(MetadataRequest(), CODE, None, 0)
