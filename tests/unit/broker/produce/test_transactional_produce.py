"""Produce requests of transactions: they wait for verification, keep their slots, and are appended in order."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers.k00_produce import Produce
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.metadata.image import EMPTY_IMAGE
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTxnMarker
from ottla.wire import codec
from ottla.wire.frames import parse_request_header, request_frame
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support.quotas import make_quotas
from tests.support.txn_stage import ID, WHERE, Stage

RESPONSE_HEADER = 9  # size, correlation id, no tags


class Connection:
    """Records the reserved slots and the responses that fill them."""

    def __init__(self) -> None:
        self.reserved: list[Any] = []
        self.completed: dict[Any, bytes] = {}
        self.closed = False

    def reserve(self, pending: Any, *, exclusive: bool) -> None:
        assert not exclusive
        self.reserved.append(pending)

    def complete(self, pending: Any, buffers: tuple[bytes, ...]) -> None:
        self.completed[pending] = b"".join(buffers)

    def close(self) -> None:
        self.closed = True


class Purgatory:
    def now(self) -> float:
        return 0.0

    def add(self, request: object) -> None: ...

    def remove(self, request: object) -> None: ...


class Producing:
    def __init__(self, version: int = 12) -> None:
        self.stage = Stage()
        self.connection = Connection()
        self.version = version
        self.handler = Produce(
            self.stage.clock,
            MetadataCache(EMPTY_IMAGE),
            self.stage.leaders.replicas,
            cast(Any, Purgatory()),
            self.stage.verifier,
            make_quotas(),
            Authorization(),
        )

    def batch(
        self, sequence: int, *, producer_id: int | None = None, transactional: bool = True
    ) -> bytearray:
        known, epoch = self.stage.producer
        return bytearray(
            build_batch(
                [NewRecord(b"k", b"v", timestamp=self.stage.clock.now)],
                producer_id=known if producer_id is None else producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
                transactional=transactional,
            )
        )

    def put(
        self, *batches: bytearray, index: int = 0, acks: int = -1, transactional_id: str | None = ID
    ) -> None:
        entries = [
            PartitionProduceData(index=index + number, records=bytes(data))
            for number, data in enumerate(batches)
        ]
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="t", partition_data=entries)],
        )
        frame = memoryview(bytearray(request_frame(request, self.version, 7, "client")[4:]))
        listener = Listener("PLAINTEXT", "", 0, "", 0)
        call = Call(self.version, 7, "client", Origin(listener, "127.0.0.1", 1))
        self.handler.handle(cast(Any, self.connection), frame, parse_request_header(frame)[4], call)
        frame[:] = bytes(len(frame))  # the memory of the frame is reused for the next request

    def responses(self) -> list[list[tuple[int, int]]]:
        """(error, base offset) of each partition, for each completed request, in the order of the slots."""
        found = []
        for slot in self.connection.reserved:
            if slot in self.connection.completed:
                body = self.connection.completed[slot]
                response = codec.decode(ProduceResponse, body, self.version, start=RESPONSE_HEADER)
                parts = response.responses[0].partition_responses
                found.append([(part.error_code, part.base_offset) for part in parts])
        return found


def test_the_first_batch_waits_and_reserves_its_slot() -> None:
    producing = Producing()
    producing.put(producing.batch(0))
    producing.put(producing.batch(1))
    assert len(producing.connection.reserved) == 2
    assert producing.responses() == []
    producing.stage.run()
    assert producing.responses() == [[(0, 0)], [(0, 1)]]
    producing.put(producing.batch(2))
    producing.stage.leaders.settle()
    assert producing.responses()[2] == [(0, 2)]


def test_unknown_partitions_are_refused_beside_known_ones() -> None:
    producing = Producing()
    producing.put(producing.batch(0), producing.batch(0))
    producing.stage.run()
    assert producing.responses() == [[(0, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]]


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_was_not_added_is_refused(version: int, code: ErrorCode) -> None:
    producing = Producing(version)
    producing.put(producing.batch(0))
    producing.stage.run()
    assert producing.responses() == [[(code, -1)]]
    assert producing.stage.leaders.get("t", 0).log.log_end_offset == 0


def test_a_retriable_error_is_reported_as_not_enough_replicas() -> None:
    producing = Producing()
    producing.stage.runtime.resign(0)
    producing.put(producing.batch(0))
    assert producing.responses() == [[(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]]


@pytest.mark.parametrize(
    ("version", "code"), [(11, ErrorCode.NOT_ENOUGH_REPLICAS), (12, ErrorCode.CONCURRENT_TRANSACTIONS)]
)
def test_a_transaction_that_is_being_ended_is_reported_to_newer_clients_only(
    version: int, code: ErrorCode
) -> None:
    producing = Producing(version)
    stage = producing.stage
    stage.runtime.write(0, lambda machine: machine.add_partitions(ID, stage.producer, frozenset({WHERE})))
    stage.run()
    stage.end()
    producing.put(producing.batch(0))
    for _ in range(100):
        stage.run()
        stage.clock.now += 2
    assert producing.responses() == [[(code, -1)]]


def test_requests_that_are_refused_as_a_whole() -> None:
    producing = Producing()
    producing.put(producing.batch(0), transactional_id=None)
    producing.put(producing.batch(0), acks=2)
    producing.stage.run()
    assert [[code for code, _ in each] for each in producing.responses()] == [
        [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED],
        [ErrorCode.INVALID_REQUIRED_ACKS],
    ]
    assert producing.stage.leaders.get("t", 0).log.log_end_offset == 0


def test_without_acknowledgement_a_failure_closes_the_connection() -> None:
    producing = Producing()
    producing.put(producing.batch(0), acks=0)
    producing.stage.run()
    assert not producing.connection.closed
    assert producing.stage.leaders.get("t", 0).log.log_end_offset == 1
    producing.put(producing.batch(9), acks=0)
    assert producing.connection.closed


def test_a_marker_during_the_verification_invalidates_it() -> None:
    """No marker would follow the batch."""
    producing = Producing()
    producing.put(producing.batch(0))
    marked = producing.stage.leaders.get("t", 0)
    producing.stage.scheduler.run()
    marked.append_marker(EndTxnMarker(False, 0), *producing.stage.producer, producing.stage.clock.now)
    producing.stage.run()
    assert producing.responses() == [[(ErrorCode.INVALID_TXN_STATE, -1)]]
