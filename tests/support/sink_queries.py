"""Queries that copy lines of text files to a topic, and what is in that topic afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from ottla.client.raw import ClientSettings, Cluster
from ottla.client.raw.admin import list_open_transactions

LINES = 30
Records = list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]] | None]]


class Lines:
    """A directory of text files: every file is a batch of its own, its lines are the records."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.written: list[str] = []
        directory.mkdir()

    def add(self) -> None:
        number = len(self.written) // LINES
        lines = [f"{number}-{line}" for line in range(LINES)]
        hidden = self.directory / f".{number}"
        hidden.write_text("\n".join(lines))
        hidden.rename(self.directory / f"{number:05}.txt")
        self.written += lines


def copying(spark: Any, directory: Path, bootstrap: str, topic: str, checkpoint: str, **options: str) -> Any:
    """The writer of a query from the files to the topic, in three tasks a batch."""
    source = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(str(directory))
    writer = (
        source.repartition(3)
        .writeStream.format(options.pop("format", "ottla"))
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
    )
    for name, value in options.items():
        writer = writer.option(name, value)
    return writer


def read_committed(bootstrap: str, topic: str, partitions: int) -> Records:
    """Committed records as (partition, key, value, headers), read to the end of every partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{topic}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    found: Records = []
    ended: set[int] = set()
    while len(ended) < partitions:
        message = consumer.poll(30)
        assert message is not None, "nothing came for half a minute"
        error = message.error()
        if error is None:
            found.append((message.partition(), message.key(), message.value(), message.headers()))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            assert error.retriable(), error
    consumer.close()
    return found


def committed_values(bootstrap: str, topic: str, partitions: int) -> list[str]:
    return sorted((value or b"").decode() for _, _, value, _ in read_committed(bootstrap, topic, partitions))


def open_transactions(bootstrap: str, prefix: str = "ottla-sink.") -> list[str]:
    """The transactional ids of sinks under which a transaction is open."""
    with Cluster(ClientSettings.from_options({"bootstrap.servers": bootstrap})) as cluster:
        return sorted(list_open_transactions(cluster, prefix).producers)
