"""Rows on their way to a topic that takes small batches only, on a real broker."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

from ottla.client.raw import Cluster, RawProducer, Refused
from ottla.local.broker_process import BrokerProcess
from ottla.spark.sink import row_encoder as writing
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.row_encoder import RowEncoder
from ottla.spark.sink.transactions import open_producer
from tests.support.clients import create_topic, fresh
from tests.support.settings import contents

LIMIT = 10_000


def write(options: SinkOptions, producer: RawProducer, cluster: Cluster, values: list[bytes]) -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values)})
    for partition, batches in RowEncoder(options, cluster, 0).encode(batch):
        producer.send(partition, batches)
    producer.flush()


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_batches_fit_their_topic(broker: BrokerProcess, codec: str) -> None:
    topic = create_topic(broker.bootstrap, fresh("small"), config={"max.message.bytes": str(LIMIT)})
    given = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "kafka.compression.type": codec}
    options = SinkOptions.parse(given, streaming=True)
    noise = Random(7)
    values = [noise.randbytes(300) for _ in range(1000)]
    with Cluster(options.settings) as cluster:
        producer = open_producer(cluster, fresh("sink"), 60_000)
        write(options, producer, cluster, values)
        producer.end(commit=True)
        assert [message.value() for message in contents(broker.bootstrap, topic)] == values
        single = RawProducer(cluster)
        single.init()
        with pytest.raises(
            Refused, match=f"the batch of a single record has .* max.message.bytes of topic {topic}"
        ):
            write(options, single, cluster, [noise.randbytes(LIMIT)])


def test_a_topic_that_was_made_anew_is_looked_up_by_the_next_task(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With fewer partitions and smaller batches than the worker process knows of."""
    topic = create_topic(broker.bootstrap, fresh("anew"), 4)
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}, streaming=False
    )
    values = [b"%04d" % number * 100 for number in range(100)]
    with Cluster(options.settings) as cluster:
        producer = RawProducer(cluster)
        producer.init()
        write(options, producer, cluster, values)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.delete_topics([topic])[topic].result(30)
        create_topic(broker.bootstrap, topic, 1, {"max.message.bytes": str(LIMIT)})
        monkeypatch.setattr(writing, "METADATA_AGE_S", 0.0)
        write(options, producer, cluster, values)
        assert [message.value() for message in contents(broker.bootstrap, topic)] == values
