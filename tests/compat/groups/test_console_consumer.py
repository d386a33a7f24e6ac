"""kafka-console-consumer and kafka-verifiable-consumer as members of groups, and Kafka's formatters on our logs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ottla.local.broker_process import BrokerProcess
from tests.compat.groups.live import CLASSIC, LiveGroup, commit
from tests.compat.java_tools import JavaTools
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.transactional import ConfluentTransactions, committed_offset, read_to_end

pytestmark = pytest.mark.compat

FORMATTERS = "org.apache.kafka.tools.consumer"
PROTOCOLS = ["classic", "consumer"]


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = create_topic(broker.bootstrap, fresh("console"))
    Publisher(broker.bootstrap).send(name, [{"value": b"%d" % n} for n in range(30)])
    return name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_continues_at_its_committed_offset(
    tools: JavaTools, broker: BrokerProcess, topic: str, protocol: str
) -> None:
    group = fresh(f"console-{protocol}")
    common = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--group", group, "--from-beginning"]
    read: list[str] = []
    for count in (10, 20):
        ran = tools.alone(
            "kafka-console-consumer",
            *common,
            "--command-property",
            f"group.protocol={protocol}",
            "--max-messages",
            str(count),
        )
        assert f"Processed a total of {count} messages" in ran.err
        read += ran.lines
        assert committed_offset(broker.bootstrap, topic, group) == len(read)
    assert read == [str(number) for number in range(30)]


def test_committed_records_only(tools: JavaTools, broker: BrokerProcess) -> None:
    topic = create_topic(broker.bootstrap, fresh("isolation"))
    producer = ConfluentTransactions(broker.bootstrap, fresh("id"))
    for value, end in ((b"yes", producer.commit), (b"no", producer.abort), (b"again", producer.commit)):
        producer.begin()
        producer.send(topic, [value])
        end()
    arguments = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--from-beginning"]
    isolated = [*arguments, "--isolation-level", "read_committed", "--group", fresh("isolated")]
    ran = tools.alone("kafka-console-consumer", *isolated, "--max-messages", "2")
    assert ran.lines == ["yes", "again"]
    ran = tools.alone("kafka-console-consumer", *arguments, "--max-messages", "3")
    assert ran.lines == ["yes", "no", "again"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_verifiable_clients(tools: JavaTools, broker: BrokerProcess, protocol: str) -> None:
    topic = create_topic(broker.bootstrap, fresh("verifiable"), 2)
    at = ["--bootstrap-server", broker.bootstrap, "--topic", topic, "--max-messages", "200"]
    sent = events(tools.alone("kafka-verifiable-producer", *at).out)
    assert sent[-1]["name"] == "tool_data"
    assert sent[-1]["acked"] == 200
    group = fresh("verifiable")
    seen = events(
        tools.alone(
            "kafka-verifiable-consumer", *at, "--group-id", group, "--group-protocol", protocol.upper()
        ).out
    )
    names = [event["name"] for event in seen]
    assert "partitions_assigned" in names
    assert "shutdown_complete" in names
    consumed = sum(event["count"] for event in seen if event["name"] == "records_consumed")
    assert consumed == 200
    assert all(event["success"] for event in seen if event["name"] == "offsets_committed")


def events(printed: str) -> list[dict[str, Any]]:
    """JSON objects one after the other: the verifiable clients end each with a line, the formatters do not."""
    found, at = [], 0
    while (at := printed.find("{", at)) >= 0:
        event, at = json.JSONDecoder().raw_decode(printed, at)
        found.append(event)
    return found


def internal(
    tools: JavaTools, broker: BrokerProcess, topic: str, name: str, formatter: str
) -> list[dict[str, Any]]:
    """The partition of an internal topic where this name lives, as one of Kafka's formatters prints it."""
    known = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(topic, 30)
    partition = java_hash(name) % len(known.topics[topic].partitions)
    count = len(read_to_end(broker.bootstrap, topic, "read_uncommitted", partition))
    ran = tools.alone(
        "kafka-console-consumer",
        "--bootstrap-server",
        broker.bootstrap,
        "--topic",
        topic,
        "--partition",
        str(partition),
        "--offset",
        "earliest",
        "--max-messages",
        str(count),
        "--formatter",
        f"{FORMATTERS}.{formatter}",
    )
    assert f"Processed a total of {count} messages" in ran.err, ran.out + ran.err
    return events(ran.out)


def java_hash(text: str) -> int:
    """How Kafka finds the partition of a group or a transactional id: Java's hash of the string, without sign."""
    value = 0
    for letter in text:
        value = (value * 31 + ord(letter)) & 0xFFFFFFFF
    return value if value < 1 << 31 else (1 << 32) - value


def test_the_offsets_formatter_reads_the_offsets_topic(
    tools: JavaTools, broker: BrokerProcess, topic: str
) -> None:
    group = fresh("formatted")
    commit(broker.bootstrap, group, topic, {0: 7})
    printed = internal(tools, broker, "__consumer_offsets", group, "OffsetsMessageFormatter")
    (mine,) = [one for one in printed if one["key"]["data"].get("group") == group]
    assert mine["key"]["data"] == {"group": group, "topic": topic, "partition": 0}
    assert mine["value"]["data"]["offset"] == 7
    assert mine["value"]["data"]["commitTimestamp"] > 0


def test_the_group_formatter_reads_the_offsets_topic(
    tools: JavaTools, broker: BrokerProcess, topic: str
) -> None:
    classic = fresh("classic")
    with LiveGroup(broker.bootstrap, classic, topic, CLASSIC, members=1):
        printed = internal(tools, broker, "__consumer_offsets", classic, "GroupMetadataMessageFormatter")
    of_classic = [one for one in printed if one["key"]["data"].get("group") == classic]
    states = [one["value"]["data"] for one in of_classic if one["value"]]
    stable = [state for state in states if state["members"]]
    assert stable[-1]["protocolType"] == "consumer"
    assert stable[-1]["protocol"] == "range"
    assert stable[-1]["members"][0]["clientId"] == "client-0"


def test_the_transaction_formatter_reads_the_transaction_log(
    tools: JavaTools, broker: BrokerProcess, topic: str
) -> None:
    transactional_id = fresh("formatted")
    producer = ConfluentTransactions(broker.bootstrap, transactional_id)
    producer.begin()
    producer.send(topic, [b"x"])
    producer.commit()
    printed = internal(
        tools, broker, "__transaction_state", transactional_id, "TransactionLogMessageFormatter"
    )
    mine = [one for one in printed if one["key"]["data"].get("transactionalId") == transactional_id]
    statuses = [one["value"]["data"]["transactionStatus"] for one in mine]
    # Empty, Ongoing, PrepareCommit, CompleteCommit
    assert statuses == [0, 1, 2, 4]
    assert len({one["value"]["data"]["producerId"] for one in mine}) == 1
    assert mine[1]["value"]["data"]["transactionPartitions"] == [{"topic": topic, "partitionIds": [0]}]
