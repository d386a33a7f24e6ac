"""Changing settings from outside, and looking at what they did: what is stored, and how."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigEntry, ConfigResource, ResourceType

from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.clients import TIMEOUT_S
from tests.support.raw import Address, Closed, RawClient

_SET, _DELETE = 0, 1
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def alter(bootstrap: str, kind: ResourceType, name: str, changes: dict[str, str | None]) -> None:
    """Set settings, or delete those whose value is None; raises KafkaException if that is refused.

    On a raw connection: confluent-kafka has no way to name the defaults of all brokers.
    """
    configs = [
        AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in changes.items()
    ]
    resource = AlterConfigsResource(resource_type=kind.value, resource_name=name, configs=configs)
    with RawClient(Address.parse(bootstrap)) as client:
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = client.ask(request, 1, IncrementalAlterConfigsResponse)
    assert not isinstance(answer, Closed)
    (response,) = answer.responses
    if response.error_code:
        raise KafkaException(KafkaError(response.error_code, response.error_message))


def alter_topic(bootstrap: str, topic: str, changes: dict[str, str | None]) -> None:
    alter(bootstrap, ResourceType.TOPIC, topic, changes)


def alter_broker(bootstrap: str, changes: dict[str, str | None], node: int | None = None) -> None:
    """Of one broker, or of all."""
    alter(bootstrap, ResourceType.BROKER, "" if node is None else str(node), changes)


def describe(bootstrap: str, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
    return found


def refusal(
    bootstrap: str, topic: str, settings: dict[str, object] | None = None, **record: object
) -> int | None:
    """The error code that a record is refused with; None if it is taken."""
    codes: list[int | None] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        codes.append(None if error is None else error.code())

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": False, **(settings or {})})
    producer.produce(topic, **record, on_delivery=delivered)
    producer.flush(TIMEOUT_S)
    return codes[0]


def contents(bootstrap: str, topic: str, partition: int = 0) -> list[Message]:
    """Every record that a consumer finds, from the start of the log to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    start, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), TIMEOUT_S)
    consumer.assign([TopicPartition(topic, partition, start)])
    found: list[Message] = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "neither a record nor the end of the log came"
            if message.error() is None:
                found.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(message.error())
    finally:
        consumer.close()


def pairs(bootstrap: str, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """(offset, key, value) of every record."""
    return [(one.offset(), one.key(), one.value()) for one in contents(bootstrap, topic)]


class StoredBatch(NamedTuple):
    """What the header of a batch in a segment file says; the layout is Kafka's."""

    base_offset: int
    size: int
    attributes: int
    max_timestamp: int

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def log_append_time(self) -> bool:
        return bool(self.attributes & 8)


def stored_batches(folder: Path) -> list[StoredBatch]:
    found = []
    for file in segment_files(folder):
        data = file.read_bytes()
        position = 0
        while position < len(data):
            base_offset, length = struct.unpack_from(">qi", data, position)
            (attributes,) = struct.unpack_from(">h", data, position + 21)
            (max_timestamp,) = struct.unpack_from(">q", data, position + 35)
            found.append(StoredBatch(base_offset, 12 + length, attributes, max_timestamp))
            position += 12 + length
    return found


def segment_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def segment_bases(folder: Path) -> list[int]:
    """The offsets at which the segments of a partition begin."""
    return [int(file.stem) for file in segment_files(folder)]


def checkpointed(data: Path, file: str) -> dict[str, int]:
    """A checkpoint file of a log directory, as `topic-partition` to offset."""
    path = data / file
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()[2:]
    return {f"{topic}-{number}": int(offset) for topic, number, offset in map(str.split, lines)}


def recovery_points(data: Path) -> dict[str, int]:
    return checkpointed(data, "recovery-point-offset-checkpoint")
