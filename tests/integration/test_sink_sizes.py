"""Rows on their way to a topic that takes small batches only, on a real broker."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from ottla.client.raw import Cluster, RawProducer, Refused
from ottla.spark.sink_options import SinkOptions
from ottla.spark.transactions import open_producer
from ottla.spark.writing import BatchWriter
from ottla.testing.broker_process import BrokerProcess
from tests.support.clients import create_topic, fresh
from tests.support.settings import contents

LIMIT = 10_000


def write(options: SinkOptions, producer: RawProducer, cluster: Cluster, values: list[bytes]) -> None:
    batch = pa.RecordBatch.from_pydict({"value": pa.array(values)})
    for partition, batches in BatchWriter(options, cluster, 0).write(batch):
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
        with pytest.raises(Refused, match=f"a record, as a batch, has .* max.message.bytes of topic {topic}"):
            write(options, single, cluster, [noise.randbytes(LIMIT)])
