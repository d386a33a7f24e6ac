"""The commands of `ottla transactions` on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from ottla.admin.session import Session
from ottla.base.ids import TopicPartition
from ottla.client.raw import LATEST
from ottla.local.broker_process import BrokerProcess
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.conftest import MakeBroker
from tests.support.clients import fresh
from tests.support.command_line import CommandLine


def open_transaction(broker: BrokerProcess, topic: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": name})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"value")
    producer.flush()
    return producer


def test_an_open_transaction_is_listed_described_and_aborted(
    ottla: CommandLine, broker: BrokerProcess, topic: str
) -> None:
    name = fresh("payments")
    producer = open_transaction(broker, topic, name)
    (listed,) = [each for each in ottla.json("transactions", "list") if each["transactional_id"] == name]
    assert listed["state"] == "Ongoing"
    assert name in ottla.run("transactions", "list", "--state", "Ongoing")[0]
    described = ottla.json("transactions", "describe", name)
    assert (described["state"], described["partitions"]) == ("Ongoing", [f"{topic}-0"])
    assert described["open_seconds"] >= 0
    (active,) = ottla.json("transactions", "producers", topic)
    assert (active["producer_id"], active["start_offset"]) == (described["producer_id"], 0)
    assert ottla.json("transactions", "hanging", "-t", topic, "--older-than", "0s") == []
    ottla.run("transactions", "abort", name, code=2)
    ottla.run("transactions", "abort", name, "--yes")
    assert ottla.json("transactions", "describe", name)["state"] in ("Empty", "CompleteAbort")
    with pytest.raises(KafkaException):
        producer.commit_transaction()
    ottla.run("transactions", "abort", name, "--yes", code=2)
    _, error = ottla.run("transactions", "describe", "missing", code=2)
    assert "there is no transactional id missing" in error


def test_unknown_states_and_incomplete_arguments_are_refused(ottla: CommandLine, topic: str) -> None:
    _, error = ottla.run("transactions", "list", "--state", "Open", code=2)
    assert "Open is not a state" in error
    ottla.run("transactions", "abort", code=2)
    ottla.run("transactions", "abort", "--topic", topic, code=2)
    _, error = ottla.run(
        "transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "5", "--yes", code=2
    )
    assert "has no open transaction that starts at offset 5" in error


def write_unverified(session: Session, topic: str) -> None:
    """Write a batch of a transaction that no coordinator has started."""
    batch = build_batch(
        [NewRecord(None, b"value", timestamp=1_600_000_000_000)],
        producer_id=7777,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    part = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(transactional_id="unknown", acks=-1, timeout_ms=10_000, topic_data=[part])
    leader = session.cluster.leader(TopicPartition(topic, 0)).leader
    response = session.cluster.connection(leader).request(request, ProduceResponse, newest=9)
    assert response.responses[0].partition_responses[0].error_code == 0


def test_a_hanging_transaction_is_found_and_aborted(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker({"transaction.partition.verification.enable": "false"})
    ottla = CommandLine(broker.bootstrap, tmp_path)
    ottla.run("topics", "create", "orders", "-p", "1", "--config", "retention.ms=-1")
    with Session(broker.bootstrap) as session:
        write_unverified(session, "orders")
        (found,) = ottla.json("transactions", "hanging")
        assert (found["topic"], found["partition"], found["start_offset"]) == ("orders", 0, 0)
        assert found["reason"] == "no coordinator knows the producer id"
        tp = TopicPartition("orders", 0)
        assert session.cluster.list_offsets({tp: LATEST}, committed=True)[tp][0] == 0
        ottla.run("transactions", "abort", "-t", "orders", "-p", "0", "--start-offset", "0", "--yes")
        assert session.cluster.list_offsets({tp: LATEST}, committed=True)[tp][0] == 2
        assert ottla.json("transactions", "hanging") == []
