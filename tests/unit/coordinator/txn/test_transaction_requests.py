"""Every request to the transaction coordinator, in every state, from every producer: request_tables/transaction.md."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.txn.transaction import LAST_CLIENT_EPOCH, Producer
from tests.support.request_tables import Case, load
from tests.support.txn_coordinator import T0, T1, TxnBench

ID = "id"
OTHER_PRODUCER_ID = 4711


class Scenario:
    """A transactional id in one state. `version` is the transaction.version of the client that ends transactions."""

    def __init__(self, state: str, version: int, *, exhausted: bool) -> None:
        self.bench = TxnBench()
        self.version = version
        self.current = Producer(1, 5)
        if state == "no transactional id":
            return
        producer = self.bench.started(ID)
        for _ in range(4):
            producer = self.bench.started(ID, expected=producer)
        if exhausted:
            self.bench.put(ID, producer_epoch=LAST_CLIENT_EPOCH)
            producer = Producer(producer.id, LAST_CLIENT_EPOCH)
            if state in ("Empty", "Ongoing"):
                producer = self.bench.started(ID)
        if state != "Empty":
            assert self.bench.add(producer, T0, version=version) is ErrorCode.NONE
        if state not in ("Empty", "Ongoing"):
            committed = state.endswith("Commit")
            ended = self.bench.end(producer, committed=committed, version=version)
            assert ended.error is ErrorCode.NONE
        if state.startswith("Complete"):
            self.bench.complete()
        assert self.bench.state(ID) == state
        self.current = self.bench.transaction(ID).client

    def producer(self, sender: str) -> Producer:
        """The producer id and epoch that the request names."""
        if sender == "previous producer id, epochs exhausted":
            known = self.bench.machine.table.get(ID)
            previous = self.current.id if known is None else known.previous_producer_id
            return Producer(previous, LAST_CLIENT_EPOCH)
        if sender == "another producer id":
            return Producer(OTHER_PRODUCER_ID, self.current.epoch)
        change = {"current": 0, "previous": -1, "older": -2, "future": 1}[sender.split(maxsplit=1)[0]]
        return Producer(self.current.id, self.current.epoch + change)


def send(case: Case, scenario: Scenario) -> ErrorCode:
    """Send the request; the error code of the response."""
    bench, (api, *details) = scenario.bench, case.request.split(", ")
    if case.sender == "new producer":
        return bench.init(ID).error
    producer = scenario.producer(case.sender)
    if api == "InitProducerId":
        return bench.init(ID, expected=producer).error
    if "verify only" in details:
        partition = T1 if "another partition" in case.sender else T0
        return bench.machine.verify(ID, producer, frozenset({partition}))[partition]
    if api == "AddPartitionsToTxn":
        return bench.add(producer, T1)
    return bench.end(producer, committed=details == ["commit"], name=ID, version=scenario.version).error


@pytest.mark.parametrize("case", load("transaction"), ids=str)
def test_error_code_of_a_request_to_the_transaction_coordinator(case: Case) -> None:
    scenario = Scenario(
        case.state, version=0 if "version 4" in case.request else 2, exhausted="exhausted" in case.sender
    )
    logged = len(scenario.bench.bench.log)
    assert send(case, scenario).name == case.expected
    if case.expected not in ("NONE", "CONCURRENT_TRANSACTIONS"):
        assert len(scenario.bench.bench.log) == logged
