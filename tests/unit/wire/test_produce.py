"""The hand-written Produce codec against the declared messages, byte for byte."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import RemoteProtocolError
from ottla.base.varint import encode_uvarint
from ottla.wire import codec, frames
from ottla.wire.messages import produce as declared
from ottla.wire.produce import (
    FIRST_TOPIC_IDS,
    NodeEndpoint,
    PartitionResult,
    SingleResponse,
    encode_response,
    parse_request,
)

VERSIONS = range(3, 14)
texts = st.text(max_size=20)
ids = st.uuids()


@st.composite
def requests(draw: st.DrawFn) -> declared.ProduceRequest:
    partitions = st.builds(
        declared.PartitionProduceData,
        index=st.integers(0, 2**31 - 1),
        records=st.none() | st.binary(max_size=200),
    )
    topics = st.builds(
        declared.TopicProduceData,
        name=texts,
        topic_id=ids,
        partition_data=st.lists(partitions, max_size=4),
    )
    return declared.ProduceRequest(
        transactional_id=draw(st.none() | texts),
        acks=draw(st.sampled_from([-1, 0, 1, 7])),
        timeout_ms=draw(st.integers(-1, 2**31 - 1)),
        topic_data=draw(st.lists(topics, max_size=3)),
    )


@given(requests(), st.sampled_from(VERSIONS))
def test_reads_what_the_declared_message_writes(request: declared.ProduceRequest, version: int) -> None:
    body = codec.encode(request, version)
    parsed = parse_request(memoryview(b"head" + body), 4, version)
    assert parsed.transactional_id == request.transactional_id
    assert (parsed.acks, parsed.timeout_ms) == (request.acks, request.timeout_ms)
    by_id = version >= FIRST_TOPIC_IDS
    assert [
        (key, [(index, None if records is None else bytes(records)) for index, records in entries])
        for key, entries in parsed.topics
    ] == [
        (
            topic.topic_id.bytes if by_id else topic.name.encode(),
            [
                (one.index, None if one.records is None else bytes(one.records))
                for one in topic.partition_data
            ],
        )
        for topic in request.topic_data
    ]


@given(requests(), st.sampled_from(VERSIONS), st.data())
def test_a_cut_request_is_rejected_or_read_shorter_but_never_beyond_its_end(
    request: declared.ProduceRequest, version: int, data: st.DataObject
) -> None:
    body = codec.encode(request, version)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RemoteProtocolError):
        parse_request(memoryview(body[:cut]), 0, version)


@pytest.mark.parametrize("version", [3, 9])
def test_more_entries_than_the_size_allows_are_rejected_before_they_are_stored(version: int) -> None:
    request = declared.ProduceRequest(topic_data=[declared.TopicProduceData(name="t")])
    body = bytearray(codec.encode(request, version))
    if version == 3:
        body[-4:] = (2**31 - 1).to_bytes(4, "big")
    else:
        body = body[:-3] + encode_uvarint(2**31 - 1) + b"\0\0"
    with pytest.raises(RemoteProtocolError, match="entries"):
        parse_request(memoryview(bytes(body)), 0, version)


results = st.builds(
    PartitionResult,
    partition=st.integers(0, 2**31 - 1),
    error_code=st.integers(-1, 133),
    base_offset=st.integers(-1, 2**63 - 1),
    log_append_time_ms=st.integers(-1, 2**40),
    log_start_offset=st.integers(-1, 2**63 - 1),
    record_errors=st.lists(st.tuples(st.integers(0, 99), st.none() | texts), max_size=2),
    error_message=st.none() | texts,
    current_leader=st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)),
)
endpoints = st.lists(
    st.builds(
        NodeEndpoint,
        node_id=st.integers(0, 99),
        host=texts,
        port=st.integers(0, 65535),
        rack=st.none() | texts,
    ),
    max_size=2,
)


def declared_response(
    version: int, topics: list[tuple[bytes, list[PartitionResult]]], nodes: list[NodeEndpoint]
) -> declared.ProduceResponse:
    hints = version >= 10
    return declared.ProduceResponse(
        responses=[
            declared.TopicProduceResponse(
                name="" if version >= FIRST_TOPIC_IDS else key.decode(),
                topic_id=uuid.UUID(bytes=key) if version >= FIRST_TOPIC_IDS else uuid.UUID(int=0),
                partition_responses=[
                    declared.PartitionProduceResponse(
                        index=one.partition,
                        error_code=one.error_code,
                        base_offset=one.base_offset,
                        log_append_time_ms=one.log_append_time_ms,
                        log_start_offset=one.log_start_offset,
                        record_errors=[
                            declared.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
                            for at, text in one.record_errors
                        ],
                        error_message=one.error_message,
                        current_leader=declared.LeaderIdAndEpoch(
                            leader_id=one.current_leader[0], leader_epoch=one.current_leader[1]
                        )
                        if hints and one.current_leader
                        else declared.LeaderIdAndEpoch(),
                    )
                    for one in made
                ],
            )
            for key, made in topics
        ],
        node_endpoints=[
            declared.NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in nodes
        ]
        if hints
        else [],
    )


@given(st.sampled_from(VERSIONS), st.data())
def test_writes_the_bytes_of_the_declared_message(version: int, data: st.DataObject) -> None:
    keys = st.binary(min_size=16, max_size=16) if version >= FIRST_TOPIC_IDS else texts.map(str.encode)
    topics = data.draw(st.lists(st.tuples(keys, st.lists(results, max_size=3)), max_size=3))
    nodes = data.draw(endpoints)
    expected = frames.response_frame(declared_response(version, topics, nodes), version, 77)
    assert encode_response(version, 77, topics, nodes) == expected


@pytest.mark.parametrize("version", VERSIONS)
def test_the_prepared_response_of_one_partition_is_the_same_bytes(version: int) -> None:
    key = bytes(range(16)) if version >= FIRST_TOPIC_IDS else b"matches"
    result = PartitionResult(3, 0, 1234, 99, 7)
    expected = encode_response(version, 42, [(key, [result])])
    assert SingleResponse(version, key).encode(42, 3, 1234, 99, 7) == expected
