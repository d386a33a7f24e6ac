"""Produce requests that fail after the append: the error, the offset, and the current leader."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.produce.appender import Appender
from ottla.broker.produce.bulk_produce import BulkPath, BulkPaths
from ottla.broker.produce.delayed_produce import ManyProduce, SingleProduce
from ottla.metadata.image import (
    BrokerImage,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    TopicsImage,
)
from ottla.storage.log.appended import Appended
from ottla.wire import codec
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse
from ottla.wire.produce import SingleResponse
from tests.support.quotas import make_quotas

VERSION, KEY, CORRELATION_ID = 12, b"t", 77
PARTITION = cast(Any, SimpleNamespace(index=3, log=SimpleNamespace(log_start_offset=2)))
CALL = cast(
    Any,
    SimpleNamespace(
        api_version=VERSION,
        correlation_id=CORRELATION_ID,
        throttle_ms=0,
        origin=SimpleNamespace(listener=SimpleNamespace(name="CLIENTS")),
    ),
)
ERRORS = [
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
]


class Connection:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def reserve(self, pending: object, *, exclusive: bool) -> None: ...

    def complete(self, pending: object, buffers: Sequence[bytes]) -> None:
        self.sent += [bytes(one) for one in buffers]

    def response(self) -> ProduceResponse:
        (frame,) = self.sent
        assert int.from_bytes(frame[4:8], "big") == CORRELATION_ID
        return codec.decode(ProduceResponse, frame[9:], VERSION)


class Purgatory:
    def add(self, request: object) -> None: ...

    def remove(self, request: object) -> None: ...


def appender() -> Appender:
    partition = PartitionImage(
        replicas=(1, 2), directories=(uuid.UUID(int=0),) * 2, isr=(2,), leader=2, leader_epoch=9
    )
    topic = TopicImage("t", uuid.UUID(int=7), {3: partition})
    leader = BrokerImage(2, 1, uuid.UUID(int=2), (Endpoint("CLIENTS", "host", 9002),), fenced=False)
    image = MetadataImage(brokers={2: leader}, topics=TopicsImage({"t": topic}, {topic.topic_id: topic}))
    return Appender(cast(Any, None), MetadataCache(image), cast(Any, None), Authorization())


def check(response: ProduceResponse, error: ErrorCode, offset: int) -> None:
    found: PartitionProduceResponse = response.responses[0].partition_responses[0]
    assert (found.index, found.error_code, found.base_offset) == (3, error, offset)
    assert found.log_start_offset == 2
    hinted = error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (
        (2, 9) if hinted else (-1, -1)
    )
    assert [(one.node_id, one.port) for one in response.node_endpoints] == ([(2, 9002)] if hinted else [])


@pytest.mark.parametrize("error", ERRORS)
def test_the_error_of_one_batch_keeps_its_offset(error: ErrorCode) -> None:
    connection = Connection()
    pending = SingleProduce(
        cast(Any, connection),
        cast(Any, Purgatory()),
        SingleResponse(VERSION, KEY),
        10,
        0.0,
        CALL,
        KEY,
        appender(),
    )
    pending.appended(PARTITION, Appended(41, 41, -1))
    pending.expire() if error is ErrorCode.REQUEST_TIMED_OUT else pending.append_done(error)
    check(connection.response(), error, 41)


@pytest.mark.parametrize("error", ERRORS)
def test_the_error_of_one_of_many_keeps_its_offset(error: ErrorCode) -> None:
    connection = Connection()
    made = appender()
    pending = ManyProduce(
        cast(Any, connection), cast(Any, Purgatory()), 10, 0.0, lambda results: made.encode(results, CALL)
    )
    pending.add_topic(KEY)
    slot = pending.add(3)
    slot.appended(PARTITION, Appended(41, 41, -1))
    pending.start()
    pending.expire() if error is ErrorCode.REQUEST_TIMED_OUT else slot.append_done(error)
    check(connection.response(), error, 41)


@pytest.mark.parametrize("error", ERRORS)
def test_the_errors_of_a_bulk_append_keep_their_offsets(error: ErrorCode) -> None:
    path = BulkPath(
        cast(Any, None),
        cast(Any, None),
        PARTITION,
        KEY,
        b"",
        call=CALL,
        appender=appender(),
        quotas=make_quotas(),
        acks=-1,
        timeout_ms=1000,
    )
    template = SingleResponse(VERSION, KEY)
    path._log_start, path._template = 2, template.encode(0, 3, 0, -1, 2)
    responses = bytearray(
        template.encode(CORRELATION_ID, 3, 41, -1, 2) + template.encode(CORRELATION_ID, 3, 42, -1, 2)
    )
    encoded = path.encode_error(responses, error)
    for offset in (41, 42):
        size = int.from_bytes(encoded[:4], "big") + 4
        connection = Connection()
        connection.complete(None, (encoded[:size],))
        check(connection.response(), error, offset)
        encoded = encoded[size:]
    assert not encoded
    assert CALL.correlation_id == CORRELATION_ID


def test_the_bulk_path_ends_when_a_right_may_have_changed() -> None:
    made = appender()
    path = BulkPath(
        cast(Any, None),
        cast(Any, None),
        PARTITION,
        KEY,
        b"",
        call=CALL,
        appender=made,
        quotas=make_quotas(),
        acks=-1,
        timeout_ms=1000,
    )
    connection = SimpleNamespace(bulk_paths=BulkPaths())
    made.authorization.epoch += 1
    assert not path.take_frames(cast(Any, connection), cast(Any, None))
    assert connection.bulk_paths is None


class Taking:
    """A bulk path that takes every frame of its shape."""

    def __init__(self) -> None:
        self.taken = 0

    def take_frames(self, connection: object, reader: object) -> bool:
        self.taken += 1
        return True


def reader_of(frame: bytes) -> Any:
    received = memoryview(len(frame).to_bytes(4, "big") + frame)
    return SimpleNamespace(received_frames=lambda: (received, 0, len(received)))


def test_each_shape_has_its_bulk_path() -> None:
    paths, first, second = BulkPaths(), Taking(), Taking()
    paths.add(b"KKVVtopic-1", cast(Any, first))
    paths.add(b"KKVVtopic-2", cast(Any, second))
    assert paths.take_frames(cast(Any, None), reader_of(b"KKVVididtopic-1records"))
    assert paths.take_frames(cast(Any, None), reader_of(b"KKVVi2i2topic-2records"))
    assert not paths.take_frames(cast(Any, None), reader_of(b"KKVVididtopic-3records"))
    assert not paths.take_frames(cast(Any, None), reader_of(b"KKVV"))
    assert (first.taken, second.taken) == (1, 1)
    paths.add(b"KKVVother", cast(Any, second))
    assert not paths.take_frames(cast(Any, None), reader_of(b"KKVVididtopic-1records")), "another length"
    assert paths.take_frames(cast(Any, None), reader_of(b"KKVVididotherrecords"))


def test_a_partition_gets_a_bulk_path_with_its_second_request() -> None:
    paths = BulkPaths()
    partitions: list[Any] = [object() for _ in range(65)]
    assert [paths.produced(one) for one in (*partitions[:3], *partitions[:3])] == [False] * 3 + [True] * 3
    for one in partitions:
        paths.produced(one)
    assert not paths.produced(partitions[0]), "the number of partitions is limited"
