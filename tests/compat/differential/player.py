"""Plays a scenario on one broker and keeps what it answered in a form that two brokers can share.

A scenario is a function that asks one request after the other; what it asks may depend on earlier answers
(ids, sessions), so the same function runs once on each broker. Each answer is taken apart to plain values.
Only what must differ is replaced: ports, ids that brokers invent, the time of day, and the wording of texts
(null, empty and "some text" stay three different things).
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ottla.base.ids import ZERO_UUID
from ottla.records.batch import read_header
from ottla.records.record import iter_records
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.schema import Message
from tests.support.raw import CLOSED, Address, RawClient
from tests.support.waiting import wait_until

SILENCE = "no answer"
NEARLY_NOW_MS = 600_000
TEXTS = frozenset({"error_message", "batch_index_error_message", "documentation"})
ITSELF = ""
# Lists whose order Apache Kafka takes from a hash table, and by which field they are brought into one here.
UNORDERED = {
    ("MetadataResponse", "topics"): "name",
    ("CreateTopicsResponse", "topics"): "name",
    ("CreatableTopicResult", "configs"): "name",
    ("DeleteTopicsResponse", "responses"): "error_code",
    ("CreatePartitionsResponse", "results"): "name",
    ("DescribeConfigsResponse", "results"): "resource_name",
    ("DescribeConfigsResult", "configs"): "name",
    ("AlterConfigsResponse", "responses"): "resource_name",
    ("IncrementalAlterConfigsResponse", "responses"): "resource_name",
    ("ListConfigResourcesResponse", "config_resources"): "resource_name",
    ("DeleteRecordsResponse", "topics"): "name",
    ("DeleteRecordsTopicResult", "partitions"): "partition_index",
    ("DescribeLogDirsResult", "topics"): "name",
    ("DescribeLogDirsTopic", "partitions"): "partition_index",
    ("AlterReplicaLogDirsResponse", "results"): "topic_name",
    ("AlterReplicaLogDirTopicResult", "partitions"): "partition_index",
    ("DescribeProducersResponse", "topics"): "name",
    ("PartitionResponse", "active_producers"): "producer_id",
    ("ApiVersionsResponse", "supported_features"): "name",
    ("ApiVersionsResponse", "finalized_features"): "name",
    ("ListOffsetsResponse", "topics"): "name",
    ("ListOffsetsTopicResponse", "partitions"): "partition_index",
    ("OffsetForLeaderEpochResponse", "topics"): "topic",
    ("OffsetForLeaderTopicResult", "partitions"): "partition",
    ("ProduceResponse", "responses"): "name",
    ("TopicProduceResponse", "partition_responses"): "index",
    ("UpdateFeaturesResponse", "results"): "feature",
    ("DescribeGroupsResponse", "groups"): "group_id",
    ("DescribedGroup", "members"): "member_id",
    ("DeleteGroupsResponse", "results"): "group_id",
    ("ConsumerGroupDescribeResponse", "groups"): "group_id",
    ("OffsetFetchResponseGroup", "topics"): "name",
    ("OffsetFetchResponseTopics", "partitions"): "partition_index",
    ("OffsetFetchResponse", "topics"): "name",
    ("OffsetFetchResponseTopic", "partitions"): "partition_index",
    ("JoinGroupResponse", "members"): "member_id",
    ("AddPartitionsToTxnResponse", "results_by_transaction"): "transactional_id",
    ("AddPartitionsToTxnResponse", "results_by_topic_v3_and_below"): "name",
    ("AddPartitionsToTxnResult", "topic_results"): "name",
    ("AddPartitionsToTxnTopicResult", "results_by_partition"): "partition_index",
    ("TransactionState", "topics"): "topic",
    ("TopicData", "partitions"): ITSELF,
    ("ListTransactionsResponse", "transaction_states"): "transactional_id",
    ("WriteTxnMarkersResponse", "markers"): "producer_id",
    ("WritableTxnMarkerResult", "topics"): "name",
    ("WritableTxnMarkerTopicResult", "partitions"): "partition_index",
    ("DescribeDelegationTokenResponse", "tokens"): ITSELF,
    ("AlterUserScramCredentialsResponse", "results"): "user",
    ("DescribeUserScramCredentialsResponse", "results"): "user",
    ("DescribeUserScramCredentialsResult", "credential_infos"): "mechanism",
    ("AlterClientQuotasResponse", "entries"): ITSELF,
    ("AlterClientQuotasResponseEntryData", "entity"): "entity_type",
    ("DescribeClientQuotasResponse", "entries"): ITSELF,
    ("EntryData", "entity"): "entity_type",
    ("EntryData", "values"): "key",
    ("DescribeAclsResponse", "resources"): ITSELF,
    ("DescribeAclsResource", "acls"): ITSELF,
    ("DeleteAclsFilterResult", "matching_acls"): ITSELF,
    ("Member", "subscribed_topic_names"): "",
    ("Assignment", "topic_partitions"): "topic_id",
}  # fmt: skip


def now_ms() -> int:
    return int(time.time() * 1000)


def response_class(request: Message) -> type[Message]:
    module = sys.modules[type(request).__module__]
    found: type[Message] = getattr(module, type(request).__name__.removesuffix("Request") + "Response")
    return found


@dataclass
class Player:
    """One broker as one scenario in one version sees it. `asked` is the transcript."""

    address: Address
    prefix: str
    version: int
    asked: list[tuple[str, Any]] = field(default_factory=list)
    names: dict[uuid.UUID, str] = field(default_factory=dict)
    secrets: dict[str, dict[Any, str]] = field(default_factory=dict)
    only_own_topics: bool = False
    records_by_content: bool = False
    timeout_s: float = 15.0

    def __post_init__(self) -> None:
        self._client: RawClient | None = None

    @property
    def client(self) -> RawClient:
        if self._client is None:
            self._client = RawClient(self.address)
            self._client.set_timeout(self.timeout_s)
        return self._client

    def set_timeout(self, seconds: float) -> None:
        """Set the timeout of a response, in seconds."""
        self.timeout_s = seconds
        self.client.set_timeout(seconds)

    def reconnect(self) -> None:
        if self._client is not None:
            self._client.__exit__()
        self._client = None

    def topic(self, name: str) -> str:
        """A name that no other scenario uses."""
        return f"{self.prefix}-{name}"

    def ask(self, label: str, request: Message, version: int | None = None) -> Any:
        """Ask, keep the answer in the transcript, return it."""
        answer = self.quietly(request, version)
        self.asked.append((label, self.plain(answer)))
        return answer

    def quietly(self, request: Message, version: int | None = None) -> Any:
        try:
            answer = self.client.ask(
                request, self.version if version is None else version, response_class(request)
            )
        except TimeoutError:
            answer = SILENCE
        if answer is CLOSED or answer is SILENCE:
            self.reconnect()
        return answer

    def keep(self, label: str, value: Any) -> None:
        """Put something of the scenario's own into the transcript."""
        self.asked.append((label, value))

    # Topics

    def create(self, name: str, partitions: int = 1, **configs: str) -> str:
        """Make a topic and wait until it can be written to and read."""
        topic = self.topic(name)
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        answer = self.quietly(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
        assert answer.topics[0].error_code == 0, answer
        self.names[answer.topics[0].topic_id] = topic
        self.wait_for(topic, partitions)
        return topic

    def topic_id(self, topic: str) -> uuid.UUID:
        return next(key for key, name in self.names.items() if name == topic)

    def wait_for(self, topic: str, partitions: int = 1) -> None:
        """Until the broker leads each partition."""
        asked = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(partitions)
                    ],
                )
            ],
        )

        def led() -> bool:
            answer = self.quietly(asked, 5)
            return all(p.error_code == 0 for t in answer.topics for p in t.partitions)

        self.until(led)
        self.learn(topic)

    def wait_gone(self, topic: str) -> None:
        self.until(lambda: self.metadata_of(topic).error_code == 3)

    def learn(self, topic: str) -> None:
        """Remember the id of a topic, so that it can be compared by name."""
        self.names[self.metadata_of(topic).topic_id] = topic

    def metadata_of(self, topic: str) -> Any:
        wanted = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        return self.quietly(wanted, 12).topics[0]

    def until(self, condition: Callable[[], bool]) -> None:
        wait_until(condition, "the broker to reach the state")

    # Answers as plain values

    def plain(self, value: Any, of: Message | None = None, name: str = "") -> Any:
        if isinstance(value, Message):
            return self._plain_message(value)
        if name == "records":
            return self._plain_records(value)
        if isinstance(value, list):
            return self._plain_list(value, of, name)
        if isinstance(value, uuid.UUID):
            return "none" if value == ZERO_UUID else self.names.get(value, "an id")
        if name in TEXTS:
            return "some text" if value else value
        known = self.secrets.get(name, {})
        if isinstance(value, int | str) and value in known:
            return known[value]
        if name == "port" and value == self.address.port:
            return "own port"
        if name == "cluster_id" and value:
            return "cluster"
        if name == "session_id" and value:
            return "session"
        if name.endswith(("_time_ms", "timestamp")) and abs(value - now_ms()) < NEARLY_NOW_MS:
            return "now"
        return repr(value) if value is CLOSED else value

    def _plain_message(self, message: Message) -> dict[str, Any]:
        fields = {
            name: self.plain(getattr(message, name), message, name) for name in message.__struct_fields__
        }
        if type(message).__name__ == "ApiVersionsResponse" and fields["finalized_features_epoch"] >= 0:
            fields["finalized_features_epoch"] = "some epoch"
        if type(message).__name__ == "InitProducerIdResponse" and fields["producer_id"] >= 0:
            fields["producer_id"] = "new id"
        return fields

    def _plain_list(self, values: list[Any], of: Message | None, name: str) -> list[Any]:
        plain = [self.plain(one, of, name) for one in values]
        order = UNORDERED.get((type(of).__name__, name))
        if self.only_own_topics and name in ("topics", "config_resources") and of is not None:
            plain = [
                one for one in plain if str(one.get("name", one.get("resource_name"))).startswith(self.prefix)
            ]
        if order is not None:
            plain.sort(key=lambda one: (str(one[order]) if order else "", str(one)))
        return plain

    def _plain_records(self, data: Any) -> Any:
        if data is None:
            return None
        view, batches = memoryview(bytes(data)), []
        while len(view) >= 61:
            header = read_header(view)
            if header.size_in_bytes > len(view):
                break
            batches.append(self._plain_batch(bytes(view[: header.size_in_bytes])))
            view = view[header.size_in_bytes :]
        return {"batches": batches, "cut": bytes(view).hex()}

    def _plain_batch(self, data: bytes) -> Any:
        header = read_header(data)
        stamped = abs(header.max_timestamp - now_ms()) < NEARLY_NOW_MS
        if not stamped and not self.records_by_content:
            return data.hex()
        fields = {
            "max": "now" if stamped else header.max_timestamp,
            **{
                name: getattr(header, name)
                for name in (
                    "base_offset", "partition_leader_epoch", "magic", "attributes", "last_offset_delta",
                    "base_timestamp", "producer_id", "producer_epoch", "base_sequence", "records_count",
                )
            },
        }  # fmt: skip
        if self.records_by_content:
            return fields | {"records": [str(one) for one in iter_records(data)]}
        return fields | {"section": data[61:].hex()}
