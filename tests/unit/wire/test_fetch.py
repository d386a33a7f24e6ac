"""The hand-written Fetch codec against the declared messages, byte for byte."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec, fetch, frames
from ottla.wire.fetch import (
    FIRST_TOPIC_IDS,
    FetchPartition,
    PartitionData,
    encode_response,
    parse_request,
)
from ottla.wire.messages import fetch as declared
from ottla.wire.produce import NodeEndpoint

VERSIONS = range(4, 19)
texts = st.text(max_size=20)
small = st.integers(-1, 2**31 - 1)
offsets = st.integers(-1, 2**63 - 1)


@st.composite
def requests(draw: st.DrawFn, version: int) -> declared.FetchRequest:
    partitions = st.builds(
        declared.FetchPartition,
        partition=small,
        current_leader_epoch=small,
        fetch_offset=offsets,
        last_fetched_epoch=small if version >= 12 else st.just(-1),
        log_start_offset=offsets,
        partition_max_bytes=small,
    )
    topics = st.builds(
        declared.FetchTopic, topic=texts, topic_id=st.uuids(), partitions=st.lists(partitions, max_size=4)
    )
    forgotten = st.builds(
        declared.ForgottenTopic, topic=texts, topic_id=st.uuids(), partitions=st.lists(small, max_size=4)
    )
    return declared.FetchRequest(
        cluster_id=draw(st.none() | texts),
        replica_id=draw(small) if version < 15 else -1,
        replica_state=declared.ReplicaState(replica_id=draw(small), replica_epoch=draw(small))
        if version >= 15
        else declared.ReplicaState(),
        max_wait_ms=draw(small),
        min_bytes=draw(small),
        max_bytes=draw(small),
        isolation_level=draw(st.sampled_from([0, 1])),
        session_id=draw(small),
        session_epoch=draw(small),
        topics=draw(st.lists(topics, max_size=3)),
        forgotten_topics_data=draw(st.lists(forgotten, max_size=2)) if version >= 7 else [],
        rack_id=draw(texts),
    )


def expected_partition(one: declared.FetchPartition, version: int) -> FetchPartition:
    return FetchPartition(
        one.partition,
        one.current_leader_epoch if version >= 9 else -1,
        one.fetch_offset,
        one.last_fetched_epoch if version >= 12 else -1,
        one.log_start_offset if version >= 5 else -1,
        one.partition_max_bytes,
    )


@given(st.sampled_from(VERSIONS), st.data())
def test_reads_what_the_declared_message_writes(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(version))
    parsed = parse_request(memoryview(b"head" + codec.encode(request, version)), 4, version)
    by_id = version >= FIRST_TOPIC_IDS

    def key(topic: declared.FetchTopic | declared.ForgottenTopic) -> bytes:
        return topic.topic_id.bytes if by_id else topic.topic.encode()

    assert parsed.replica_id == (request.replica_state.replica_id if version >= 15 else request.replica_id)
    assert parsed.replica_epoch == (request.replica_state.replica_epoch if version >= 15 else -1)
    assert (parsed.max_wait_ms, parsed.min_bytes) == (request.max_wait_ms, request.min_bytes)
    assert (parsed.max_bytes, parsed.isolation_level) == (request.max_bytes, request.isolation_level)
    if version >= 7:
        assert (parsed.session_id, parsed.session_epoch) == (request.session_id, request.session_epoch)
        assert parsed.forgotten == [(key(one), one.partitions) for one in request.forgotten_topics_data]
    if version >= 11:
        assert parsed.rack == request.rack_id
    assert parsed.topics == [
        (key(topic), [expected_partition(one, version) for one in topic.partitions])
        for topic in request.topics
    ]


@given(st.sampled_from(range(15, 19)), st.data())
def test_the_request_for_one_partition_is_read_as_any_other(version: int, data: st.DataObject) -> None:
    request = data.draw(requests(version))
    request.cluster_id, request.rack_id, request.forgotten_topics_data = None, "", []
    request.replica_state = declared.ReplicaState(replica_id=data.draw(small), replica_epoch=7)
    partition = declared.FetchPartition(partition=data.draw(small), fetch_offset=data.draw(offsets))
    request.topics = [declared.FetchTopic(topic_id=uuid.uuid4(), partitions=[partition])]
    body = bytearray(codec.encode(request, version))
    assert fetch._one_partition(memoryview(body), 0) == fetch._Reader(memoryview(body), version).request(0)
    changed = data.draw(st.integers(0, len(body) - 1))
    body[changed] = data.draw(st.integers(0, 255))
    quick = fetch._one_partition(memoryview(body), 0)
    assert quick is None or quick == fetch._Reader(memoryview(body), version).request(0)


@given(st.sampled_from(VERSIONS), st.data())
def test_a_cut_request_is_rejected(version: int, data: st.DataObject) -> None:
    body = codec.encode(data.draw(requests(version)), version)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(RemoteProtocolError):
        parse_request(memoryview(body[:cut]), 0, version)


def test_too_many_entries_are_rejected_before_they_are_stored() -> None:
    body = bytearray(codec.encode(declared.FetchRequest(), 4))
    body[-4:] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(RemoteProtocolError, match="entries"):
        parse_request(memoryview(bytes(body)), 0, 4)


@st.composite
def answers(draw: st.DrawFn, *, plain: bool) -> PartitionData:
    made = PartitionData(draw(small), draw(st.integers(-1, 133)), draw(offsets), draw(offsets), draw(offsets))
    made.records = draw(st.binary(max_size=200))
    made.preferred_read_replica = draw(st.integers(-1, 3))
    if plain:
        made.aborted = draw(st.sampled_from([None, ()]))
        return made
    made.aborted = draw(st.none() | st.lists(st.tuples(offsets, offsets), max_size=2))
    made.diverging = draw(st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)))
    made.current_leader = draw(st.none() | st.tuples(st.integers(0, 99), st.integers(0, 99)))
    return made


def declared_partition(one: PartitionData, version: int) -> declared.PartitionData:
    made = declared.PartitionData(
        partition_index=one.index,
        error_code=one.error_code,
        high_watermark=one.high_watermark,
        last_stable_offset=one.last_stable_offset,
        log_start_offset=one.log_start_offset,
        records=bytes(one.records),
        aborted_transactions=None
        if one.aborted is None
        else [declared.AbortedTransaction(producer_id=pid, first_offset=at) for pid, at in one.aborted],
    )
    if version >= 11:
        made.preferred_read_replica = one.preferred_read_replica
    if version >= 12 and one.diverging:
        made.diverging_epoch = declared.EpochEndOffset(epoch=one.diverging[0], end_offset=one.diverging[1])
    if version >= 12 and one.current_leader:
        leader, epoch = one.current_leader
        made.current_leader = declared.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    return made


@given(st.sampled_from(VERSIONS), st.data(), st.booleans())
def test_writes_the_bytes_of_the_declared_message(version: int, data: st.DataObject, one: bool) -> None:
    by_id = version >= FIRST_TOPIC_IDS
    keys = st.binary(min_size=16, max_size=16) if by_id else texts.map(str.encode)
    # Responses of one partition, without anything unusual, have an encoder of their own.
    least, most = (1, 1) if one else (0, 3)
    partitions = st.lists(answers(plain=one), min_size=least, max_size=most)
    topics = data.draw(st.lists(st.tuples(keys, partitions), min_size=least, max_size=most))
    endpoints = st.builds(NodeEndpoint, node_id=st.integers(0, 9), host=texts, port=st.just(9))
    nodes = data.draw(st.lists(endpoints, max_size=0 if one else 2))
    error, session = (data.draw(st.integers(0, 133)), data.draw(small)) if version >= 7 else (0, 0)
    response = declared.FetchResponse(
        error_code=error,
        session_id=session,
        responses=[
            declared.FetchableTopicResponse(
                topic="" if by_id else key.decode(),
                topic_id=uuid.UUID(bytes=key) if by_id else uuid.UUID(int=0),
                partitions=[declared_partition(each, version) for each in made],
            )
            for key, made in topics
        ],
        node_endpoints=[
            declared.NodeEndpoint(node_id=n.node_id, host=n.host, port=n.port, rack=n.rack) for n in nodes
        ]
        if version >= 16
        else [],
    )
    expected = frames.response_frame(response, version, 5)
    assert b"".join(encode_response(version, 5, error, session, topics, nodes)) == expected


def test_record_bytes_are_not_copied() -> None:
    records = memoryview(bytearray(b"x" * 1000))
    data = PartitionData(0, 0, 1, 1, 0, records)
    buffers = encode_response(12, 1, 0, 0, [(b"t", [data])])
    assert any(buffer is records for buffer in buffers)


def test_the_request_of_a_follower_for_one_partition_is_that_of_the_declared_message() -> None:
    topic_id = uuid.UUID(int=7 << 64 | 9)
    wanted = fetch.FetchPartition(3, 5, 1 << 40, 4, 1 << 33, 1 << 20)
    body = fetch.encode_one_partition((500, 1, 10 << 20), (1 << 30, 77), topic_id.bytes, wanted, (2, 1 << 35))
    entry = declared.FetchPartition(
        partition=3,
        current_leader_epoch=5,
        fetch_offset=1 << 40,
        last_fetched_epoch=4,
        log_start_offset=1 << 33,
        partition_max_bytes=1 << 20,
    )
    request = declared.FetchRequest(
        replica_state=declared.ReplicaState(replica_id=2, replica_epoch=1 << 35),
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=10 << 20,
        session_id=1 << 30,
        session_epoch=77,
        topics=[declared.FetchTopic(topic_id=topic_id, partitions=[entry])],
    )
    assert body == codec.encode(request, 17)
