"""Two-phase commit on a real broker: one process prepares, another ends, and the broker may die in between."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import Message
from tests.conftest import MakeBroker
from tests.support.clients import create_topic, fresh
from tests.support.raw import Address, Closed, RawClient
from tests.support.transactional import read_to_end
from tests.support.waiting import wait_until

R = TypeVar("R", bound=Message)
INIT_PRODUCER_ID, TRANSACTION = 22, 1
TWO_PHASE = {
    "transaction.two.phase.commit.enable": "true",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
}
COMING = (14, 15, 16, 51)
FENCED, NOT_ALLOWED, WRONG_STATE = 90, 53, 48


class Participant:
    """A participant in the transactions of an external coordinator. It keeps no state of its own."""

    def __init__(self, broker: BrokerProcess, transactional_id: str) -> None:
        self._broker = broker
        self._name = transactional_id

    def _ask(self, request: Message, version: int, response: type[R]) -> R:
        with RawClient(Address.parse(self._broker.bootstrap)) as client:
            answer = client.ask(request, version, response)
        assert not isinstance(answer, Closed)
        return answer

    def find(self) -> None:
        asked = FindCoordinatorRequest(key=self._name, key_type=TRANSACTION)
        wait_until(lambda: self._ask(asked, 3, FindCoordinatorResponse).error_code == 0, "a coordinator")

    def start(self, *, keep: bool = False, two_phase: bool = True, timeout_ms: int = 1) -> Any:
        self.find()
        request = InitProducerIdRequest(
            transactional_id=self._name,
            transaction_timeout_ms=timeout_ms,
            enable2_pc=two_phase,
            keep_prepared_txn=keep,
        )
        answers = [self._ask(request, 6, InitProducerIdResponse)]
        while answers[-1].error_code in COMING:
            answers.append(self._ask(request, 6, InitProducerIdResponse))
        return answers[-1]

    def prepare(self, topic: str, value: bytes, *, two_phase: bool = True) -> tuple[int, int]:
        """Write a record in a new transaction and leave it open; the producer id and epoch are what is known of it."""
        started = self.start(two_phase=two_phase)
        batch = build_batch(
            [NewRecord(None, value, (), 1)],
            producer_id=started.producer_id,
            producer_epoch=started.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
        data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=self._name, acks=-1, timeout_ms=30_000, topic_data=data)
        answer = self._ask(request, 12, ProduceResponse)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return started.producer_id, started.producer_epoch

    def end(self, producer_id: int, producer_epoch: int, *, committed: bool) -> int:
        self.find()
        request = EndTxnRequest(
            transactional_id=self._name,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=committed,
        )
        code = self._ask(request, 5, EndTxnResponse).error_code
        while code in COMING:
            code = self._ask(request, 5, EndTxnResponse).error_code
        return code

    def state(self) -> str:
        asked = DescribeTransactionsRequest(transactional_ids=[self._name])
        return self._ask(asked, 0, DescribeTransactionsResponse).transaction_states[0].transaction_state


@pytest.fixture
def broker(make_broker: MakeBroker) -> BrokerProcess:
    return make_broker(TWO_PHASE)


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap, fresh("two-phase"))


def committed(broker: BrokerProcess, topic: str) -> list[bytes]:
    return read_to_end(broker.bootstrap, topic, "read_committed")


@pytest.mark.parametrize("commits", [True, False])
def test_what_one_process_prepared_another_ends_after_the_broker_died(
    broker: BrokerProcess, topic: str, commits: bool
) -> None:
    name = fresh("id")
    writer = Participant(broker, name)
    prepared = writer.prepare(topic, b"prepared")
    # Both have a timeout of 1 ms; it counts for the other alone.
    other = Participant(broker, fresh("other"))
    other.prepare(topic, b"other", two_phase=False)
    wait_until(lambda: other.state() == "CompleteAbort", "an abort when time is up")
    assert writer.state() == "Ongoing"
    assert committed(broker, topic) == []
    broker.kill()
    broker.start()
    assert committed(broker, topic) == []
    ender = Participant(broker, name)
    assert ender.end(*prepared, committed=commits) == 0
    assert ender.end(*prepared, committed=commits) == 0
    assert ender.end(*prepared, committed=not commits) == WRONG_STATE
    expected = [b"prepared"] if commits else []
    wait_until(lambda: committed(broker, topic) == expected, "the outcome")


def test_who_keeps_a_prepared_transaction_learns_whose_it_is_and_ends_it(
    broker: BrokerProcess, topic: str
) -> None:
    name = fresh("id")
    prepared = Participant(broker, name).prepare(topic, b"prepared")
    broker.kill()
    broker.start()
    keeper = Participant(broker, name)
    kept = keeper.start(keep=True)
    assert kept.error_code == 0
    assert (kept.ongoing_txn_producer_id, kept.ongoing_txn_producer_epoch) == prepared
    assert keeper.end(*prepared, committed=False) == FENCED
    broker.kill()
    broker.start()
    assert keeper.end(kept.producer_id, kept.producer_epoch, committed=True) == 0
    wait_until(lambda: committed(broker, topic) == [b"prepared"], "the commit")
    nothing = keeper.start(keep=True)
    assert (nothing.ongoing_txn_producer_id, nothing.ongoing_txn_producer_epoch) == (-1, -1)


def test_it_is_listed_and_allowed_only_where_it_is_on(broker: BrokerProcess, make_broker: MakeBroker) -> None:
    plain = make_broker({}, name="plain")

    def newest(where: BrokerProcess) -> int:
        with RawClient(Address.parse(where.bootstrap)) as client:
            answer = client.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
        assert not isinstance(answer, Closed)
        return next(each.max_version for each in answer.api_keys if each.api_key == INIT_PRODUCER_ID)

    assert (newest(broker), newest(plain)) == (6, 5)
    assert Participant(plain, "id").start().error_code == NOT_ALLOWED
    assert Participant(plain, "id").start(two_phase=False).error_code == 0
