"""kafka-transactions of Apache Kafka 4.3.1 lists, describes and ends transactions, unmodified."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.compat.java_tools import JavaTools
from tests.compat.tables import Row, rows
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.transactional import ConfluentTransactions, Refused, read_to_end
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat

Tool = Callable[..., str]


@pytest.fixture
def tool(tools: JavaTools, broker: BrokerProcess) -> Tool:
    at = ["--bootstrap-server", broker.bootstrap]
    return lambda *arguments: tools.good("kafka-transactions", *at, *arguments).out


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap, fresh("transactions-tool"), 2)


@pytest.fixture
def opened(broker: BrokerProcess, topic: str) -> tuple[str, ConfluentTransactions]:
    """A transaction that is open, over both partitions; its transactional id and its producer."""
    transactional_id = fresh("open")
    producer = ConfluentTransactions(broker.bootstrap, transactional_id)
    producer.begin()
    producer.send(topic, [b"in", b"side"], 0)
    producer.send(topic, [b"too"], 1)
    return transactional_id, producer


def committed(broker: BrokerProcess, topic: str) -> list[bytes]:
    return read_to_end(broker.bootstrap, topic, "read_committed")


def test_transactions_are_listed(tool: Tool, opened: tuple[str, ConfluentTransactions]) -> None:
    transactional_id, producer = opened

    def state() -> str | None:
        found = [
            row for row in rows(tool("list"), "TransactionalId") if row["TransactionalId"] == transactional_id
        ]
        return found[0]["TransactionState"] if found else None

    assert state() == "Ongoing"
    pattern = rows(
        tool("list", "--transactional-id-pattern", f"{transactional_id[:-2]}.*"), "TransactionalId"
    )
    assert [row["TransactionalId"] for row in pattern] == [transactional_id]
    old = rows(tool("list", "--duration-filter", "3600000"), "TransactionalId")
    assert transactional_id not in [row["TransactionalId"] for row in old]
    producer.commit()
    wait_until(lambda: state() == "CompleteCommit", "the transaction to be complete")


def test_a_transaction_is_described(
    tool: Tool, topic: str, opened: tuple[str, ConfluentTransactions]
) -> None:
    transactional_id, producer = opened

    def described() -> Row:
        (row,) = rows(tool("describe", "--transactional-id", transactional_id), "CoordinatorId")
        return row

    row = described()
    assert row["TransactionState"] == "Ongoing"
    assert row["TransactionTimeoutMs"] == "60000"
    assert int(row["TransactionDurationMs"]) >= 0
    assert sorted(row["TopicPartitions"].split(",")) == [f"{topic}-0", f"{topic}-1"]
    producer.abort()
    wait_until(lambda: described()["TransactionState"] == "CompleteAbort", "the transaction to be complete")


def test_producers_are_described(tool: Tool, topic: str, opened: tuple[str, ConfluentTransactions]) -> None:
    transactional_id, producer = opened

    def described() -> Row:
        printed = tool("describe-producers", "--topic", topic, "--partition", "0")
        (row,) = rows(printed, "ProducerId")
        return row

    (listed,) = rows(tool("list", "--transactional-id-pattern", transactional_id), "TransactionalId")
    row = described()
    assert row["ProducerId"] == listed["ProducerId"]
    assert row["LastSequence"] == "1"
    assert row["CurrentTransactionStartOffset"] == "0"
    producer.commit()
    wait_until(lambda: described()["CurrentTransactionStartOffset"] == "None", "the transaction to be over")


def test_a_live_transaction_does_not_hang(
    tool: Tool, broker: BrokerProcess, topic: str, opened: tuple[str, ConfluentTransactions]
) -> None:
    """The coordinator knows it, however old it is."""
    (brokers,) = {row["Coordinator"] for row in rows(tool("list"), "TransactionalId")}
    found = tool("find-hanging", "--broker-id", brokers, "--max-transaction-timeout", "0")
    assert opened[0] not in found
    assert topic not in tool("find-hanging", "--topic", topic, "--partition", "0")


def test_a_transaction_is_aborted_by_its_first_offset(
    tool: Tool, broker: BrokerProcess, topic: str, opened: tuple[str, ConfluentTransactions]
) -> None:
    Publisher(broker.bootstrap).send(topic, [{"value": b"plain", "partition": 0}])
    assert committed(broker, topic) == []
    tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    wait_until(lambda: committed(broker, topic) == [b"plain"], "readers to go on")


def test_a_transaction_is_terminated_by_its_name(
    tool: Tool, broker: BrokerProcess, topic: str, opened: tuple[str, ConfluentTransactions]
) -> None:
    transactional_id, producer = opened
    Publisher(broker.bootstrap).send(topic, [{"value": b"plain", "partition": 0}])
    tool("forceTerminateTransaction", "--transactionalId", transactional_id)
    wait_until(lambda: committed(broker, topic) == [b"plain"], "readers to go on")
    with pytest.raises(Refused):
        producer.commit()
    (row,) = rows(tool("describe", "--transactional-id", transactional_id), "CoordinatorId")
    assert row["TransactionState"] == "Empty"
