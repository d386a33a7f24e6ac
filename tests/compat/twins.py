"""Two brokers in the same state, Apache Kafka and Ottla, and what must be equal between their answers.

Both are given the same topics with the same records at the same times. An answer is turned into plain data,
in which everything that may differ is replaced by a word: ids that each broker makes up, addresses, paths,
texts for people. Error codes, counts, offsets, sizes, record bytes, presence or absence of a text: all of
that stays and is compared.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import Message
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until

R = TypeVar("R", bound=Message)
NOW = 1_794_000_000_000
NOT_READY = (3, 5, 6, 100)
"""What a broker may answer just after a topic was made: unknown, no leader, not the leader, unknown id."""

WORDS = {
    "cluster_id": "cluster",
    "host": "host",
    "port": "port",
    "log_dir": "directory",
    "error_message": "text",
    "batch_index_error_message": "text",
    "documentation": "text",
    "session_id": "session",
    "total_bytes": "bytes",
    "usable_bytes": "bytes",
    "last_fetch_timestamp": "time",
    "last_caught_up_timestamp": "time",
}
"""Fields whose value is each broker's own; only whether there is one (not null, empty, zero) is kept."""

UNORDERED = {"configs", "config_resources", "topics", "results", "responses"}
"""Arrays that Kafka fills from hash maps: compared in the order of their text."""


@dataclass
class Twin:
    """One of the two. Rows ask through it; `version` is the version under test."""

    name: str
    bootstrap: str
    version: int = 0
    topic_ids: dict[str, uuid.UUID] = field(default_factory=dict)

    def ask(self, request: Message, response: type[R], version: int | None = None) -> R:
        with RawClient(Address.parse(self.bootstrap)) as client:
            answer = client.ask(request, self.version if version is None else version, response)
        assert not isinstance(answer, Closed), f"{self.name} closed the connection on {request}"
        return answer

    def create(self, name: str, partitions: int = 1, **configs: str) -> str:
        """A topic that is served when this returns, whose id is known."""
        named = [
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=named)
        made = self.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
        assert made.topics[0].error_code == 0, made
        self.topic_ids[name] = made.topics[0].topic_id
        wait_until(lambda: self._is_served(name, partitions), f"{name} to be served by {self.name}")
        return name

    def _is_served(self, name: str, partitions: int) -> bool:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
        (topic,) = self.ask(request, MetadataResponse, 12).topics
        return topic.error_code == 0 and len(topic.partitions) == partitions

    def produce(self, topic: str, partition: int, batch: bytes) -> int:
        """The base offset of a batch that is appended for certain."""
        data = TopicProduceData(
            name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)]
        )
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        answers: list[int] = []

        def accepted() -> bool:
            answer = self.ask(request, ProduceResponse, 9).responses[0].partition_responses[0]
            assert answer.error_code in (0, *NOT_READY), answer
            answers.append(answer.base_offset)
            return answer.error_code == 0

        wait_until(accepted, f"{self.name} to take a batch")
        return answers[-1]

    def plain(self, message: Message) -> object:
        """The message as data that can be compared with the twin's."""
        names = {topic_id: f"id of {name}" for name, topic_id in self.topic_ids.items()}
        return _plain(message, names)


def _plain(value: object, names: dict[uuid.UUID, str], where: str = "") -> object:
    if isinstance(value, msgspec.Struct):
        return {key: _plain(getattr(value, key), names, key) for key in value.__struct_fields__}
    if isinstance(value, list):
        items = [_plain(item, names, where) for item in value]
        return sorted(items, key=repr) if where in UNORDERED else items
    if isinstance(value, uuid.UUID):
        return names.get(value, "an id") if value.int else "no id"
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    if where in WORDS:
        empty = value is None or value == "" or (isinstance(value, int) and value <= 0)
        return value if empty else WORDS[where]
    return value


def records(
    count: int, start_ms: int = NOW, *, step_ms: int = 1000, prefix: str = "value"
) -> list[NewRecord]:
    return [
        NewRecord(f"key {n}".encode(), f"{prefix} {n}".encode(), timestamp=start_ms + n * step_ms)
        for n in range(count)
    ]


def prepare(twin: Twin) -> None:
    """The state that rows may read and must not change."""
    twin.create("plain", 3)
    twin.produce("plain", 0, build_batch(records(5)))
    twin.produce("plain", 0, build_batch(records(3, NOW + 60_000)))
    twin.produce("plain", 0, build_batch(records(1, NOW + 30_000)))
    twin.produce("plain", 1, build_batch(records(50), codec=Codec.GZIP))
    twin.create("settled", 1, retention_ms="3600000", cleanup_policy="compact", segment_bytes="1048576")
    twin.produce("settled", 0, build_batch(records(4)))
    twin.create("stamped", 1, message_timestamp_type="LogAppendTime")
    twin.create("small", 1, max_message_bytes="500")


Row = Callable[[Twin], Message | list[Message]]
