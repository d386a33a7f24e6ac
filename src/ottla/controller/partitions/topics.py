"""Decisions about topics: create, delete, add partitions.

The rules of CreateTopics, DeleteTopics and CreatePartitions, in Kafka 4.3's order of checks and with its error
codes. A decision depends on the image that is passed in only; there is no state between requests.

A request with more than 10,000 partitions is refused completely (POLICY_VIOLATION), because its records are
appended atomically. CreatePartitions has the same limit; Kafka returns UNKNOWN_SERVER_ERROR there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import METADATA_TOPIC, ZERO_UUID, Uuid
from ottla.base.rng import Random, random_uuid
from ottla.config.broker import BrokerConfig
from ottla.controller.decision import (
    RECORDS_PER_REQUEST_MAX,
    Charge,
    Decision,
    check_record_count,
    uncharged,
)
from ottla.controller.settings.config_rules import ConfigRules
from ottla.metadata import placement
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.metadata.topic_names import check_topic_name, collision_key
from ottla.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.schema import Message


class TopicManager:
    """Decisions about topics; it has no state of the cluster."""

    def __init__(self, config: BrokerConfig, rules: ConfigRules, rng: Random) -> None:
        self._config = config
        self._rules = rules
        self._rng = rng

    # CreateTopics

    def decide_create(
        self,
        image: MetadataImage,
        request: CreateTopicsRequest,
        *,
        led: Counter[int] | None = None,
        charge: Charge = uncharged,
    ) -> Decision[CreateTopicsResponse]:
        """Create each valid topic; the others get an error in the response.

        `led` has the number of partitions of which each broker is the preferred leader; without it they are counted.
        """
        times = Counter(topic.name for topic in request.topics)
        wanted = [t for t in request.topics if times[t.name] == 1 and t.name != METADATA_TOPIC]
        check_record_count(sum(max(t.num_partitions, len(t.assignments)) for t in wanted))
        taken = _collision_keys(image, wanted)
        records: list[Message] = []
        results: list[CreatableTopicResult] = []
        after = placement.last_leader(image)
        total = placement.preferred_leaders(image) if led is None else led
        for topic in wanted:
            leaders = placement.Leaders(Counter(total), after=after)
            try:
                created, result = self._create(image, topic, taken, leaders)
                charge(result.num_partitions)
            except ApiError as error:
                results.append(_create_refused(topic.name, error.code, error.message))
                continue
            check_record_count(len(records) + len(created))
            records += created
            results.append(result)
            placed = [record.replicas[0] for record in created if isinstance(record, PartitionRecord)]
            total.update(placed)
            after = placed[-1] if placed else after
        for name, count in times.items():
            if count > 1:
                results.append(_create_refused(name, ErrorCode.INVALID_REQUEST, "named more than once"))
            elif name == METADATA_TOPIC:
                text = "the metadata log of the cluster cannot be created as a topic"
                results.append(_create_refused(name, ErrorCode.INVALID_REQUEST, text))
        return Decision([] if request.validate_only else records, CreateTopicsResponse(topics=results))

    def _create(
        self,
        image: MetadataImage,
        topic: CreatableTopic,
        taken: dict[str, str],
        leaders: placement.Leaders,
    ) -> tuple[list[Message], CreatableTopicResult]:
        check_topic_name(topic.name)
        key = collision_key(topic.name)
        if topic.name in image.topics.by_name:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {topic.name} already exists")
        if key is not None and key in taken:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"{topic.name} and the existing topic {taken[key]} differ only in '.' and '_'",
            )
        configs = self._creation_configs(image, topic)
        assignments = self._assignments(image, topic, leaders)
        topic_id = random_uuid(self._rng)
        records: list[Message] = [TopicRecord(name=topic.name, topic_id=topic_id)]
        records += [
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
            for name, value in configs.items()
        ]
        records += partition_records(image, topic_id, 0, assignments)
        entries = [
            CreatableTopicConfigs(
                name=entry.name,
                # Values of the request are returned unchanged, including spaces.
                value=None if entry.sensitive else configs.get(entry.name, entry.value),
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in self._rules.describe_topic(image, configs)
        ]
        return records, CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(assignments),
            replication_factor=len(assignments[0]),
            configs=entries,
        )

    def _creation_configs(self, image: MetadataImage, topic: CreatableTopic) -> dict[str, str]:
        nulls = [entry.name for entry in topic.configs if entry.value is None]
        if nulls:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"settings without a value: {', '.join(nulls)}")
        configs = {entry.name: entry.value for entry in topic.configs if entry.value is not None}
        self._rules.check_topic(image, configs, changed=configs)
        return configs

    def _assignments(
        self,
        image: MetadataImage,
        topic: CreatableTopic,
        leaders: placement.Leaders,
    ) -> list[Sequence[int]]:
        if topic.assignments:
            return _manual_assignments(image, topic)
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "the replication factor must be positive, or -1 for the default",
            )
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                "the number of partitions must be positive, or -1 for the default",
            )
        count = self._config.int("num.partitions") if topic.num_partitions == -1 else topic.num_partitions
        factor = topic.replication_factor
        if factor == -1:
            factor = self._config.int("default.replication.factor")
        return list(placement.place_partitions(image, count, factor, leaders))

    # DeleteTopics

    def decide_delete(
        self,
        image: MetadataImage,
        request: DeleteTopicsRequest,
        api_version: int,
        charge: Charge = uncharged,
    ) -> Decision[DeleteTopicsResponse]:
        """Delete each topic that is named once, by name or by id."""
        if not self._config.bool("delete.topic.enable"):
            code = ErrorCode.INVALID_REQUEST if api_version < 3 else ErrorCode.TOPIC_DELETION_DISABLED
            return Decision([], refuse_delete(request, code, "delete.topic.enable is false"))
        results: list[DeletableTopicResult] = []
        names, ids = _deletion_targets(request, results)
        found: dict[Uuid, str] = {}
        for topic_id in ids:
            topic = image.topics.by_id.get(topic_id)
            if topic is None:
                results.append(
                    _delete_refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
                )
            else:
                found[topic_id] = topic.name
        for name in names:
            topic = image.topics.by_name.get(name)
            if topic is None:
                text = "the topic does not exist"
                results.append(_delete_refused(name, ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
            elif topic.topic_id in found:
                del found[topic.topic_id]
                text = "the topic is named by name and by id"
                results.append(_delete_refused(name, topic.topic_id, ErrorCode.INVALID_REQUEST, text))
            else:
                found[topic.topic_id] = name
        check_record_count(len(found))
        records: list[Message] = []
        for topic_id, name in found.items():
            try:
                charge(len(image.topics.by_id[topic_id].partitions))
            except ApiError as error:
                results.append(_delete_refused(name, topic_id, error.code, error.message))
            else:
                results.append(DeletableTopicResult(name=name, topic_id=topic_id))
                records.append(RemoveTopicRecord(topic_id=topic_id))
        return Decision(records, DeleteTopicsResponse(responses=results))

    # CreatePartitions

    def decide_create_partitions(
        self, image: MetadataImage, request: CreatePartitionsRequest, charge: Charge = uncharged
    ) -> Decision[CreatePartitionsResponse]:
        """Add partitions to each topic that is named once."""
        times = Counter(topic.name for topic in request.topics)
        results = [
            _extend_refused(name, ErrorCode.INVALID_REQUEST, "named more than once")
            for name, count in times.items()
            if count > 1
        ]
        records: list[Message] = []
        for topic in request.topics:
            if times[topic.name] > 1:
                continue
            try:
                records += self._extend(image, topic, RECORDS_PER_REQUEST_MAX - len(records), charge)
            except ApiError as error:
                if error.code is ErrorCode.POLICY_VIOLATION:
                    raise
                results.append(_extend_refused(topic.name, error.code, error.message))
            else:
                results.append(CreatePartitionsTopicResult(name=topic.name, error_message=None))
        return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))

    def _extend(
        self, image: MetadataImage, request: CreatePartitionsTopic, room: int, charge: Charge
    ) -> list[Message]:
        topic = image.topics.by_name.get(request.name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        existing = len(topic.partitions)
        additional = request.count - existing
        if additional <= 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"the topic has {existing} partitions, {request.count} is not more",
            )
        if request.assignments is not None and len(request.assignments) != additional:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{additional} partitions are added, but replicas are assigned for {len(request.assignments)}",
            )
        check_record_count(RECORDS_PER_REQUEST_MAX - room + additional)
        charge(additional)
        factor = len(topic.partitions[0].replicas)
        assignments: list[Sequence[int]]
        if request.assignments is not None:
            assignments = [assignment.broker_ids for assignment in request.assignments]
            for replicas in assignments:
                placement.check_assignment(image, replicas, factor)
        else:
            leaders = placement.Leaders(
                placement.preferred_leaders(image),
                [each.replicas[0] for each in topic.partitions.values()],
                placement.last_leader_of(topic),
            )
            assignments = list(placement.place_partitions(image, additional, factor, leaders))
        return list(partition_records(image, topic.topic_id, existing, assignments))


def partition_records(
    image: MetadataImage, topic_id: Uuid, first: int, assignments: Iterable[Sequence[int]]
) -> list[PartitionRecord]:
    """Records of new partitions. All active replicas are in sync, because the partitions are empty."""
    records = []
    for index, replicas in enumerate(assignments, first):
        isr = [broker for broker in replicas if image.brokers[broker].active]
        if not isr:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"no broker of partition {index} can lead it: {replicas} are fenced or shutting down",
            )
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=list(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[image.brokers[broker].default_directory() for broker in replicas],
            )
        )
    return records


def _manual_assignments(image: MetadataImage, topic: CreatableTopic) -> list[Sequence[int]]:
    if topic.replication_factor != -1 or topic.num_partitions != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "with a manual assignment the number of partitions and the replication factor must be -1",
        )
    chosen: dict[int, Sequence[int]] = {}
    expected = None
    for assignment in topic.assignments:
        if assignment.partition_index in chosen:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partition {assignment.partition_index} is assigned twice",
            )
        placement.check_assignment(image, assignment.broker_ids, expected)
        expected = len(assignment.broker_ids)
        chosen[assignment.partition_index] = assignment.broker_ids
    if sorted(chosen) != list(range(len(chosen))):
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions must be numbered 0, 1, 2, ...")
    return [chosen[index] for index in range(len(chosen))]


def _collision_keys(image: MetadataImage, wanted: list[CreatableTopic]) -> dict[str, str]:
    """Names of existing topics by collision key; empty if none of the wanted names can collide."""
    if not any(collision_key(topic.name) for topic in wanted):
        return {}
    return {key: name for name in image.topics.by_name if (key := collision_key(name)) is not None}


def _deletion_targets(
    request: DeleteTopicsRequest, results: list[DeletableTopicResult]
) -> tuple[list[str], list[Uuid]]:
    """Names and ids that occur exactly once; errors of the others are added to `results`."""
    names: Counter[str] = Counter(request.topic_names)
    ids: Counter[Uuid] = Counter()
    for topic in request.topics:
        if topic.name is not None and topic.topic_id == ZERO_UUID:
            names[topic.name] += 1
        elif topic.name is None and topic.topic_id != ZERO_UUID:
            ids[topic.topic_id] += 1
        else:
            text = (
                "the name or the id is required"
                if topic.name is None
                else "the name or the id is allowed, not both"
            )
            results.append(_delete_refused(topic.name, topic.topic_id, ErrorCode.INVALID_REQUEST, text))
    for name, count in names.items():
        if count > 1:
            results.append(
                _delete_refused(name, ZERO_UUID, ErrorCode.INVALID_REQUEST, "named more than once")
            )
    for topic_id, count in ids.items():
        if count > 1:
            results.append(_delete_refused(None, topic_id, ErrorCode.INVALID_REQUEST, "named more than once"))
    return [n for n, count in names.items() if count == 1], [i for i, count in ids.items() if count == 1]


def has_valid_names(wanted: Sequence[CreatableTopic | CreatePartitionsTopic]) -> bool:
    """Return whether a topic has a name that no other has: the others are refused without a decision."""
    times = Counter(topic.name for topic in wanted)
    return any(count == 1 and name != METADATA_TOPIC for name, count in times.items())


def valid_deletions(request: DeleteTopicsRequest) -> tuple[list[str], list[Uuid]]:
    """Return the names and the ids that the request contains once: the others are refused without a decision."""
    return _deletion_targets(request, [])


def refuse_create(
    request: CreateTopicsRequest, code: ErrorCode, message: str | None = None
) -> CreateTopicsResponse:
    """The same error for every topic of a request."""
    return CreateTopicsResponse(
        topics=[_create_refused(topic.name, code, message) for topic in request.topics]
    )


def refuse_delete(
    request: DeleteTopicsRequest, code: ErrorCode, message: str | None = None
) -> DeleteTopicsResponse:
    """The same error for every topic of a request."""
    by_name = [_delete_refused(name, ZERO_UUID, code, message) for name in request.topic_names]
    by_state = [_delete_refused(topic.name, topic.topic_id, code, message) for topic in request.topics]
    return DeleteTopicsResponse(responses=by_name + by_state)


def refuse_create_partitions(
    request: CreatePartitionsRequest, code: ErrorCode, message: str | None = None
) -> CreatePartitionsResponse:
    """The same error for every topic of a request."""
    return CreatePartitionsResponse(results=[_extend_refused(t.name, code, message) for t in request.topics])


def _create_refused(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def _delete_refused(
    name: str | None, topic_id: Uuid, code: ErrorCode, message: str | None
) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message)


def _extend_refused(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=message)
