"""Produce requests of transactions: held while they are asked about, in their place, appended in order."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.produce.transactional_produce import produce_transactional
from ottla.broker.registry import Call
from ottla.broker.services import Broker
from ottla.metadata.image import EMPTY_IMAGE
from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import EndTxnMarker
from ottla.wire import codec
from ottla.wire.messages.produce import ProduceResponse
from ottla.wire.produce import ProduceRequest
from tests.support.txn_stage import ID, Stage

RESPONSE_HEADER = 9  # size, correlation id, no tags


class Connection:
    """Notes which places are kept, and what is put into them."""

    def __init__(self) -> None:
        self.listener = SimpleNamespace(name="PLAINTEXT")
        self.places: list[Any] = []
        self.answers: dict[Any, bytes] = {}
        self.closed = False

    def expect(self, answer: Any, *, exclusive: bool) -> None:
        assert not exclusive
        self.places.append(answer)

    def finish(self, answer: Any, buffers: tuple[bytes, ...]) -> None:
        self.answers[answer] = b"".join(buffers)

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
        self.broker = Broker()
        self.broker.replicas = self.stage.leaders.replicas
        self.broker.verifier = self.stage.verifier
        self.broker.purgatory = cast(Any, Purgatory())
        self.broker.clock = self.stage.clock
        self.broker.image = EMPTY_IMAGE

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
        entries = [(index + number, memoryview(data)) for number, data in enumerate(batches)]
        request = ProduceRequest(transactional_id, acks, 1000, [(b"t", list(entries))])
        call = Call(self.version, 7, "client", cast(Any, self.connection), self.broker)
        produce_transactional(request, call, 100)
        for data in batches:
            data[:] = bytes(len(data))  # the frame's memory goes to the next request

    def answers(self) -> list[list[tuple[int, int]]]:
        """(error, base offset) of each partition, for each request that is answered, in the order of places."""
        found = []
        for place in self.connection.places:
            if place in self.connection.answers:
                body = self.connection.answers[place]
                response = codec.decode(ProduceResponse, body, self.version, start=RESPONSE_HEADER)
                parts = response.responses[0].partition_responses
                found.append([(part.error_code, part.base_offset) for part in parts])
        return found


def test_the_first_batch_waits_and_keeps_its_place() -> None:
    producing = Producing()
    producing.put(producing.batch(0))
    producing.put(producing.batch(1))
    assert len(producing.connection.places) == 2
    assert producing.answers() == []
    producing.stage.run()
    assert producing.answers() == [[(0, 0)], [(0, 1)]]
    producing.put(producing.batch(2))
    producing.stage.leaders.settle()
    assert producing.answers()[2] == [(0, 2)]


def test_partitions_that_are_not_here_are_refused_beside_those_that_are() -> None:
    producing = Producing()
    producing.put(producing.batch(0), producing.batch(0))
    producing.stage.run()
    assert producing.answers() == [[(0, 0), (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]]


@pytest.mark.parametrize(
    ("version", "code"),
    [(10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_partition_that_was_not_named(version: int, code: ErrorCode) -> None:
    producing = Producing(version)
    producing.put(producing.batch(0))
    producing.stage.run()
    assert producing.answers() == [[(code, -1)]]
    assert producing.stage.leaders.get("t", 0).log.log_end_offset == 0


def test_what_a_client_may_await_is_told_as_something_to_repeat() -> None:
    producing = Producing()
    producing.stage.runtime.resign(0)
    producing.put(producing.batch(0))
    assert producing.answers() == [[(ErrorCode.NOT_ENOUGH_REPLICAS, -1)]]


def test_requests_that_are_refused_as_a_whole() -> None:
    producing = Producing()
    producing.put(producing.batch(0), transactional_id=None)
    producing.put(producing.batch(0), producing.batch(0, producer_id=4))
    producing.put(producing.batch(0), acks=2)
    producing.stage.run()
    assert [[code for code, _ in each] for each in producing.answers()] == [
        [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED],
        [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2,
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


def test_an_end_that_overtakes_the_question_leaves_nothing_behind() -> None:
    """The coordinator said yes, but a marker came first: the batch would never be ended."""
    producing = Producing()
    producing.put(producing.batch(0))
    marked = producing.stage.leaders.get("t", 0)
    producing.stage.scheduler.run()
    marked.append_marker(EndTxnMarker(False, 0), *producing.stage.producer, producing.stage.clock.now)
    producing.stage.run()
    assert producing.answers() == [[(ErrorCode.INVALID_TXN_STATE, -1)]]
