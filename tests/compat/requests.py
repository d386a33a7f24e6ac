"""Requests whose answers Ottla and Apache Kafka must give alike, in every version.

A row is a function of one broker; what it returns is compared. Rows that change something make a topic of
their own, named after themselves and the version, so that rows can run in any order.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.base.ids import ZERO_UUID
from ottla.broker.handlers import load_all
from ottla.broker.registry import ROUTES
from ottla.records.builder import build_batch
from ottla.wire.messages import alter_configs, describe_producers, describe_topic_partitions
from ottla.wire.messages import incremental_alter_configs as incremental
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.wire.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse
from ottla.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
)
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.schema import Message
from tests.compat.twins import NOW, Row, Twin, records
from tests.support.waiting import wait_until

load_all()

ROWS: dict[tuple[str, int], Row] = {}
"""By name and version."""

TOPIC, BROKER = 2, 4


def row(request: type[Message], *, since: int = 0, until: int = 99) -> Callable[[Row], Row]:
    """Registers a row for every version of the API that both declare, within the bounds given."""

    def register(play: Row) -> Row:
        first, last = ROUTES[request.SPEC.api_key].versions
        for version in range(max(first, since), min(last, until) + 1):
            if version in request.SPEC.versions:
                ROWS[play.__name__, version] = play
        return play

    return register


def own(twin: Twin, row_name: str) -> str:
    return f"{row_name}-{twin.version}"


# ---- metadata ---------------------------------------------------------------------------------------------


@row(MetadataRequest)
def metadata_of_topics(twin: Twin) -> Message:
    """Known, unknown and impossible names; nothing is created."""
    names = ["plain", "settled", "nowhere", "not/a/name", ""]
    topics = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=twin.version < 4)
    if twin.version < 4:
        request.topics = topics[:2]
    return twin.ask(request, MetadataResponse)


@row(MetadataRequest, since=8, until=10)
def metadata_with_authorized_operations(twin: Twin) -> Message:
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="plain")],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    return twin.ask(request, MetadataResponse)


@row(MetadataRequest, since=12)
def metadata_by_id(twin: Twin) -> Message:
    topics = [
        MetadataRequestTopic(name=None, topic_id=twin.topic_ids["plain"]),
        MetadataRequestTopic(name=None, topic_id=type(ZERO_UUID)(int=77)),
    ]
    return twin.ask(MetadataRequest(topics=topics), MetadataResponse)


@row(DescribeClusterRequest)
def cluster(twin: Twin) -> Message:
    return twin.ask(
        DescribeClusterRequest(include_cluster_authorized_operations=True), DescribeClusterResponse
    )


@row(DescribeTopicPartitionsRequest)
def partitions_of_topics(twin: Twin) -> Message:
    topics = [describe_topic_partitions.TopicRequest(name=name) for name in ("plain", "settled", "nowhere")]
    return twin.ask(DescribeTopicPartitionsRequest(topics=topics), DescribeTopicPartitionsResponse)


@row(DescribeTopicPartitionsRequest)
def partitions_of_topics_by_pages(twin: Twin) -> list[Message]:
    topics = [describe_topic_partitions.TopicRequest(name=name) for name in ("plain", "settled")]
    pages: list[Message] = []
    cursor = None
    for _ in range(4):
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=2, cursor=cursor)
        page = twin.ask(request, DescribeTopicPartitionsResponse)
        pages.append(page)
        if page.next_cursor is None:
            break
        cursor = describe_topic_partitions.Cursor(
            topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index
        )
    return pages


# ---- topics -----------------------------------------------------------------------------------------------


@row(CreateTopicsRequest)
def topics_created_and_refused(twin: Twin) -> Message:
    name = own(twin, "created")
    topics = [
        CreatableTopic(name=name, num_partitions=2, replication_factor=1),
        CreatableTopic(name="plain", num_partitions=1, replication_factor=1),
        CreatableTopic(name="bad name", num_partitions=1, replication_factor=1),
        CreatableTopic(name="..", num_partitions=1, replication_factor=1),
        CreatableTopic(name="x" * 250, num_partitions=1, replication_factor=1),
        CreatableTopic(name=f"{name}-none", num_partitions=0, replication_factor=1),
        CreatableTopic(name=f"{name}-factor", num_partitions=1, replication_factor=2),
        CreatableTopic(name=f"{name}-zero", num_partitions=1, replication_factor=0),
        CreatableTopic(
            name=f"{name}-value",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="retention.ms", value="soon")],
        ),
        CreatableTopic(
            name=f"{name}-unknown",
            num_partitions=1,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="no.such.setting", value="1")],
        ),
        CreatableTopic(
            name=f"{name}-assigned",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
        ),
        CreatableTopic(
            name=f"{name}-astray",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[7])],
        ),
        CreatableTopic(
            name=f"{name}-both",
            num_partitions=1,
            replication_factor=1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1])],
        ),
    ]
    return twin.ask(CreateTopicsRequest(topics=topics), CreateTopicsResponse)


@row(CreateTopicsRequest)
def topics_twice_in_one_request(twin: Twin) -> Message:
    topic = CreatableTopic(name=own(twin, "twice"), num_partitions=1, replication_factor=1)
    return twin.ask(CreateTopicsRequest(topics=[topic, topic]), CreateTopicsResponse)


@row(CreateTopicsRequest)
def topics_only_validated(twin: Twin) -> Message:
    topics = [
        CreatableTopic(
            name=own(twin, "validated"),
            num_partitions=4,
            replication_factor=1,
            configs=[CreatableTopicConfig(name="cleanup.policy", value="compact")],
        ),
        CreatableTopic(name="plain", num_partitions=1, replication_factor=1),
    ]
    return twin.ask(CreateTopicsRequest(topics=topics, validate_only=True), CreateTopicsResponse)


@row(CreatePartitionsRequest)
def partitions_grown_and_refused(twin: Twin) -> Message:
    name = twin.create(own(twin, "grown"), 2)
    counts = {name: 3, "plain": 3, "settled": 0, "nowhere": 5, "stamped": -1}
    topics = [CreatePartitionsTopic(name=key, count=n, assignments=None) for key, n in counts.items()]
    return twin.ask(CreatePartitionsRequest(topics=topics, timeout_ms=10_000), CreatePartitionsResponse)


@row(CreatePartitionsRequest)
def partitions_growth_validated(twin: Twin) -> Message:
    topics = [CreatePartitionsTopic(name="plain", count=9, assignments=None)]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=10_000, validate_only=True)
    return twin.ask(request, CreatePartitionsResponse)


@row(DeleteTopicsRequest)
def topics_deleted(twin: Twin) -> list[Message]:
    name = twin.create(own(twin, "deleted"))
    names = [name, "nowhere"]
    request = DeleteTopicsRequest(
        topic_names=names, topics=[DeleteTopicState(name=name) for name in names], timeout_ms=10_000
    )
    if twin.version < 6:
        request.topics = []
    else:
        request.topic_names = []
    return [twin.ask(request, DeleteTopicsResponse), twin.ask(request, DeleteTopicsResponse)]


@row(DeleteTopicsRequest, since=6)
def topics_deleted_by_id(twin: Twin) -> Message:
    name = twin.create(own(twin, "deleted-by-id"))
    states = [
        DeleteTopicState(name=None, topic_id=twin.topic_ids[name]),
        DeleteTopicState(name=None, topic_id=type(ZERO_UUID)(int=78)),
        DeleteTopicState(name=None, topic_id=ZERO_UUID),
    ]
    return twin.ask(DeleteTopicsRequest(topics=states, timeout_ms=10_000), DeleteTopicsResponse)


# ---- settings ---------------------------------------------------------------------------------------------


@row(DescribeConfigsRequest)
def configs_of_a_topic(twin: Twin) -> Message:
    resources = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name="settled", configuration_keys=None),
        DescribeConfigsResource(resource_type=TOPIC, resource_name="nowhere", configuration_keys=None),
        DescribeConfigsResource(
            resource_type=TOPIC,
            resource_name="plain",
            configuration_keys=["retention.ms", "cleanup.policy", "not.there"],
        ),
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    request.include_documentation = twin.version >= 3
    answer = twin.ask(request, DescribeConfigsResponse)
    for config in (config for result in answer.results for config in result.configs):
        if config.name == "flush.messages":
            # The one default of ours that differs: a record is synced before it is acknowledged.
            config.synonyms = [synonym for synonym in config.synonyms if synonym.source != 5]
    return answer


@row(AlterConfigsRequest)
def configs_replaced(twin: Twin) -> list[Message]:
    name = twin.create(own(twin, "replaced"), retention_ms="1")

    def change(topic: str, key: str, value: str | None) -> alter_configs.AlterConfigsResource:
        return alter_configs.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=topic,
            configs=[alter_configs.AlterableConfig(name=key, value=value)],
        )

    resources = [
        change(name, "max.message.bytes", "2000"),
        change("nowhere", "retention.ms", "1"),
        change("plain", "retention.ms", "never"),
        change("settled", "no.such.setting", "1"),
    ]
    answer = twin.ask(AlterConfigsRequest(resources=resources), AlterConfigsResponse)
    return [answer, overrides_of(twin, name)]


@row(IncrementalAlterConfigsRequest)
def configs_changed(twin: Twin) -> list[Message]:
    name = twin.create(own(twin, "changed"), cleanup_policy="delete", retention_ms="5")

    def change(topic: str, key: str, operation: int, value: str | None) -> incremental.AlterConfigsResource:
        altered = incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        return incremental.AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[altered])

    answers: list[Message] = []
    steps = [
        [change(name, "cleanup.policy", 2, "compact"), change("nowhere", "retention.ms", 0, "1")],
        [change(name, "cleanup.policy", 3, "delete"), change("plain", "retention.ms", 2, "1")],
        [change(name, "retention.ms", 1, None), change("plain", "no.such.setting", 0, "1")],
        [change(name, "retention.ms", 0, "7"), change("plain", "retention.ms", 0, None)],
        [change(name, "min.insync.replicas", 0, "0")],
    ]
    for resources in steps:
        request = IncrementalAlterConfigsRequest(resources=resources)
        answers.append(twin.ask(request, IncrementalAlterConfigsResponse))
    return [*answers, overrides_of(twin, name)]


@row(IncrementalAlterConfigsRequest)
def configs_change_validated(twin: Twin) -> list[Message]:
    name = twin.create(own(twin, "unchanged"))
    altered = incremental.AlterableConfig(name="retention.ms", config_operation=0, value="7")
    resource = incremental.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[altered])
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    return [twin.ask(request, IncrementalAlterConfigsResponse), overrides_of(twin, name)]


def overrides_of(twin: Twin, topic: str) -> Message:
    """What the topic was given (source 1), as DescribeConfigs tells it."""
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=None)
    answer = twin.ask(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 4)
    for result in answer.results:
        result.configs = [config for config in result.configs if config.config_source == 1]
    return answer


@row(ListConfigResourcesRequest)
def config_resources(twin: Twin) -> Message:
    """Client metrics only: both have none; the topics are not the same on both while other rows run."""
    return twin.ask(
        ListConfigResourcesRequest(resource_types=[16] if twin.version else []), ListConfigResourcesResponse
    )


@row(ListConfigResourcesRequest, since=1)
def config_resources_of_no_kind(twin: Twin) -> Message:
    return twin.ask(ListConfigResourcesRequest(resource_types=[99]), ListConfigResourcesResponse)


# ---- records ----------------------------------------------------------------------------------------------


def produce_request(twin: Twin, batches: list[tuple[str, int, bytes]], acks: int = -1) -> ProduceRequest:
    data = [
        TopicProduceData(
            name=topic,
            topic_id=twin.topic_ids.get(topic, ZERO_UUID),
            partition_data=[PartitionProduceData(index=partition, records=batch)],
        )
        for topic, partition, batch in batches
    ]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)


@row(ProduceRequest, since=3)
def produced(twin: Twin) -> list[Message]:
    name = twin.create(own(twin, "produced"))
    twin.produce(name, 0, build_batch(records(2)))
    good = build_batch(records(3))
    return [
        twin.ask(produce_request(twin, [(name, 0, good)]), ProduceResponse),
        twin.ask(produce_request(twin, [(name, 0, good)], acks=1), ProduceResponse),
        twin.ask(produce_request(twin, [(name, 9, good)]), ProduceResponse),
        twin.ask(
            produce_request(twin, [("settled", 0, build_batch([r._replace(key=None) for r in records(1)]))]),
            ProduceResponse,
        ),
        twin.ask(produce_request(twin, [("small", 0, build_batch(records(40)))]), ProduceResponse),
        twin.ask(produce_request(twin, [(name, 0, good)], acks=2), ProduceResponse),
    ]


@row(ProduceRequest, since=3, until=12)
def produced_to_an_unknown_topic(twin: Twin) -> Message:
    return twin.ask(produce_request(twin, [("nowhere", 0, build_batch(records(1)))]), ProduceResponse)


@row(ProduceRequest, since=3)
def produced_idempotently(twin: Twin) -> list[Message]:
    """In order, the same again, with a gap, with an old epoch."""
    name = twin.create(own(twin, "idempotent"))
    twin.produce(name, 0, build_batch(records(1)))
    plays = [(0, 0), (2, 0), (0, 0), (7, 0), (0, 1), (2, 0)]
    return [
        twin.ask(
            produce_request(
                twin,
                [
                    (
                        name,
                        0,
                        build_batch(records(2), producer_id=4_000, producer_epoch=epoch, base_sequence=start),
                    )
                ],
            ),
            ProduceResponse,
        )
        for start, epoch in plays
    ]


def fetch_request(twin: Twin, places: list[tuple[str, int, int]], **options: int) -> FetchRequest:
    topics = [
        FetchTopic(
            topic=topic,
            topic_id=twin.topic_ids.get(topic, ZERO_UUID),
            partitions=[
                FetchPartition(
                    partition=partition,
                    fetch_offset=at,
                    partition_max_bytes=options.get("partition_max", 1 << 20),
                )
            ],
        )
        for topic, partition, at in places
    ]
    return FetchRequest(
        max_wait_ms=options.get("wait", 0),
        min_bytes=options.get("min_bytes", 0),
        max_bytes=options.get("max_bytes", 1 << 20),
        isolation_level=options.get("isolation", 0),
        topics=topics,
    )


@row(FetchRequest)
def fetched(twin: Twin) -> list[Message]:
    return [
        twin.ask(fetch_request(twin, [("plain", 0, 0)]), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 0, 6)], isolation=1), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 0, 9)]), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 0, 10)]), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 0, -1)]), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 1, 20)]), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 2, 0), ("settled", 0, 0)]), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 7, 0)]), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 0, 0)], max_bytes=1), FetchResponse),
        twin.ask(fetch_request(twin, [("plain", 0, 0)], partition_max=300), FetchResponse),
    ]


@row(FetchRequest)
def fetched_from_an_unknown_topic(twin: Twin) -> Message:
    request = fetch_request(twin, [("nowhere", 0, 0)])
    request.topics[0].topic_id = type(ZERO_UUID)(int=79)
    return twin.ask(request, FetchResponse)


@row(FetchRequest, since=9)
def fetched_with_a_leader_epoch(twin: Twin) -> list[Message]:
    answers: list[Message] = []
    for epoch in (0, 5):
        request = fetch_request(twin, [("plain", 0, 0)])
        request.topics[0].partitions[0].current_leader_epoch = epoch
        answers.append(twin.ask(request, FetchResponse))
    return answers


@row(ListOffsetsRequest)
def offsets(twin: Twin) -> list[Message]:
    """Sentinels, times between records, times before and after all, partitions that are not there."""
    times = [-1, -2, 0, NOW, NOW + 1, NOW + 4000, NOW + 61_000, NOW + 62_001, -3]
    if twin.version >= 8:
        times += [-4]
    if twin.version >= 9:
        times += [-5]
    answers: list[Message] = []
    for time in times:
        partitions = [ListOffsetsPartition(partition_index=n, timestamp=time) for n in (0, 1, 2, 7)]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="plain", partitions=partitions)], timeout_ms=1000
        )
        answer = twin.ask(request, ListOffsetsResponse)
        answer.topics[0].partitions.sort(key=lambda partition: partition.partition_index)
        answers.append(answer)
    return answers


@row(ListOffsetsRequest)
def offsets_of_an_unknown_topic(twin: Twin) -> Message:
    partitions = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [ListOffsetsTopic(name="nowhere", partitions=partitions)]
    return twin.ask(ListOffsetsRequest(replica_id=-1, topics=topics), ListOffsetsResponse)


@row(OffsetForLeaderEpochRequest)
def end_of_epochs(twin: Twin) -> Message:
    partitions = [
        OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0),
        OffsetForLeaderPartition(partition=1, current_leader_epoch=0, leader_epoch=3),
        OffsetForLeaderPartition(partition=2, current_leader_epoch=9, leader_epoch=0),
        OffsetForLeaderPartition(partition=7, current_leader_epoch=-1, leader_epoch=0),
    ]
    topics = [
        OffsetForLeaderTopic(topic="plain", partitions=partitions),
        OffsetForLeaderTopic(topic="nowhere", partitions=partitions[:1]),
    ]
    return twin.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), OffsetForLeaderEpochResponse)


@row(DeleteRecordsRequest)
def records_deleted(twin: Twin) -> list[Message]:
    name = twin.create(own(twin, "trimmed"))
    twin.produce(name, 0, build_batch(records(10)))
    answers: list[Message] = []
    for at in (4, 2, -1, 11, -2):
        partitions = [DeleteRecordsPartition(partition_index=n, offset=at) for n in (0, 3)]
        topics = [DeleteRecordsTopic(name=name, partitions=partitions)]
        answers.append(
            twin.ask(DeleteRecordsRequest(topics=topics, timeout_ms=10_000), DeleteRecordsResponse)
        )
    return answers


@row(DescribeLogDirsRequest)
def log_directories(twin: Twin) -> Message:
    """Sizes too: the files have the same bytes."""
    topics = [
        DescribableLogDirTopic(topic="plain", partitions=[0, 1, 2]),
        DescribableLogDirTopic(topic="nowhere", partitions=[0]),
    ]
    answer = twin.ask(DescribeLogDirsRequest(topics=topics), DescribeLogDirsResponse)
    for topic in answer.results[0].topics:
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    return answer


@row(InitProducerIdRequest)
def producer_ids(twin: Twin) -> Message:
    """Kafka asks its controller for a block of ids first, and says that it is loading (14) meanwhile."""
    answers: list[InitProducerIdResponse] = []

    def answered() -> bool:
        answers.append(twin.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse))
        return answers[-1].error_code != 14

    wait_until(answered, "a producer id")
    assert answers[-1].producer_id >= 0
    answers[-1].producer_id = 0
    return answers[-1]


@row(DescribeProducersRequest)
def producers(twin: Twin) -> list[Message]:
    name = twin.create(own(twin, "producers"))
    batch = build_batch(records(3), producer_id=4_711, producer_epoch=0, base_sequence=0)
    twin.produce(name, 0, batch)
    topics = [
        describe_producers.TopicRequest(name=name, partition_indexes=[0, 4]),
        describe_producers.TopicRequest(name="nowhere", partition_indexes=[0]),
    ]
    return [twin.ask(DescribeProducersRequest(topics=topics), DescribeProducersResponse)]
