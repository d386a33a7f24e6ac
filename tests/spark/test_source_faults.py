"""A stream through what happens to brokers and topics: a broker that dies, a topic that is made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import MakeBroker
from tests.support.clients import Publisher, create_topic
from tests.support.waiting import wait_until

TIMEOUT_S = 180.0


def stream(spark: Any, bootstrap: str, topic: str, **more: str) -> Any:
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    return reader.option("subscribe", topic).options(startingOffsets="earliest", **more).load()


def test_a_stream_outlives_its_broker(
    spark: Any, make_broker: MakeBroker, checkpoint: str, run_query: Any
) -> None:
    broker = make_broker()
    topic = create_topic(broker.bootstrap, "events", 2)
    seen: list[bytes] = []
    frame = stream(spark, broker.bootstrap, topic)
    writer = frame.writeStream.foreachBatch(lambda rows, _: seen.extend(row.value for row in rows.collect()))
    query = run_query(writer.option("checkpointLocation", checkpoint))
    for total in (50, 100):
        values = [f"{total}-{number}".encode() for number in range(50)]
        Publisher(broker.bootstrap).send(topic, [{"value": value} for value in values])
        wait_until(lambda: len(seen) >= total or not query.isActive, "the rows", TIMEOUT_S)  # noqa: B023
        broker.kill()
        broker.start()
    assert query.exception() is None
    assert len(seen) == len(set(seen)) == 100


def test_a_topic_made_anew_is_a_loss_and_never_read_from_before(
    spark: Any, make_broker: MakeBroker, tmp_path: Path
) -> None:
    broker = make_broker()
    topic = create_topic(broker.bootstrap, "events", 1)
    Publisher(broker.bootstrap).send(topic, [{"value": b"old"} for _ in range(9)])

    def run(name: str, **more: str) -> list[bytes]:
        seen: list[bytes] = []
        query = (
            stream(spark, broker.bootstrap, topic, **more)
            .writeStream.foreachBatch(lambda rows, _: seen.extend(row.value for row in rows.collect()))
            .option("checkpointLocation", str(tmp_path / name))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(TIMEOUT_S)
        return seen

    assert [run(name) for name in ("strict", "lax")] == [[b"old"] * 9] * 2
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(30)

    def is_made_anew() -> bool:
        try:
            admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
        except Exception:  # noqa: BLE001 - the old one is not quite gone yet
            return False
        return True

    wait_until(is_made_anew, "the topic's name to be free")
    Publisher(broker.bootstrap).send(topic, [{"value": b"new"} for _ in range(4)])
    with pytest.raises(Exception, match="failOnDataLoss"):
        run("strict")
    assert run("lax", failOnDataLoss="false") == []
    Publisher(broker.bootstrap).send(topic, [{"value": b"newer"}])
    assert run("lax", failOnDataLoss="false") == [b"newer"]
