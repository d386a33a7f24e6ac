"""Every API with the rights that it needs, and where its responses report that they are missing.

A row has a request, the rights with which it succeeds, and values of the response: without any right, with the rights
one after the other, and with all of them. A path names a value: fields and indexes, `len` of a list, or `has:` and the
name of an element.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.net.listeners import ListenerType
from ottla.records.builder import NewRecord, build_batch
from ottla.security.resources import CLUSTER, Operation, ResourceType
from ottla.wire.frames import request_frame
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.schema import Message, fields_of

TOPIC, GROUP, TXN = "rights-t", "rights-g", "rights-x"
"""The topic, the group and the transactional id that exist."""
NODE_ID: Final = 1
READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS
TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TXN_DENIED = 29, 30, 31, 53
AUTHORIZATION_ERRORS: Final = frozenset({TOPIC_DENIED, GROUP_DENIED, CLUSTER_DENIED, TXN_DENIED, 65})

Right = tuple[Operation, ResourceType, str]
Values = Mapping[str, object]


@dataclass
class World:
    """What requests need to know about the cluster."""

    topic_id: Uuid = ZERO_UUID
    producer_id: int = -1
    producer_epoch: int = -1
    cluster_id: str = ""


@dataclass(frozen=True)
class Row:
    """One request, and what it needs."""

    api: str
    version: int
    fields: Mapping[str, Any] | Callable[[World], Mapping[str, Any]]
    denied: Values
    """Without any right."""
    needs: tuple[Right, ...] = ()
    steps: tuple[Values, ...] = ()
    """With the first right, with the first two, and so on; not with all."""
    allowed: Values = field(default_factory=dict)
    """With all of them. Without values: anything but an error of authorization."""
    alternatives: tuple[Right, ...] = ()
    """Rights of which each is as good as the last one of `needs`."""
    note: str = ""
    listener: ListenerType = ListenerType.BROKER
    anonymous: Values | None = None
    """For a client without authentication, if that differs from `denied`."""

    @property
    def title(self) -> str:
        return f"{self.listener.value}-{self.api}-v{self.version}{self.note and f'-{self.note}'}"

    @property
    def request_class(self) -> type[Message]:
        return _class(self.api, "Request")

    @property
    def response_class(self) -> type[Message]:
        return _class(self.api, "Response")

    def request(self, world: World) -> Message:
        return build(self.request_class, self.fields(world) if callable(self.fields) else self.fields)


def _class(api: str, suffix: str) -> type[Message]:
    module = importlib.import_module(f"ottla.wire.messages.{api}")
    found: type[Message] = getattr(module, api.title().replace("_", "") + suffix)
    return found


def build(message: type[Message], fields: Mapping[str, Any]) -> Message:
    """A message from nested mappings."""
    structs = {each.name: each.struct for each in fields_of(message)}

    def value(name: str, given: Any) -> Any:
        struct = structs[name]
        if struct is None or given is None:
            return given
        return [build(struct, one) for one in given] if isinstance(given, list) else build(struct, given)

    return message(**{name: value(name, given) for name, given in fields.items()})


def value_at(response: object, path: str) -> object:
    """The value of a response at a path."""
    for part in path.split("."):
        if part.startswith("has:"):
            response = any(part[4:] in _names(each) for each in response)  # type: ignore[attr-defined]
        elif part == "len":
            response = len(response)  # type: ignore[arg-type]
        elif part.isdigit():
            response = response[int(part)]  # type: ignore[index]
        else:
            response = getattr(response, part)
    return response


def _names(element: object) -> list[object]:
    return [getattr(element, name, None) for name in ("name", "group_id", "transactional_id")]


def error_codes(value: object) -> set[int]:
    """All error codes of a response."""
    found: set[int] = set()
    if isinstance(value, list):
        for each in value:
            found |= error_codes(each)
    elif isinstance(value, Message):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            found |= {inner} if name.endswith("error_code") else error_codes(inner)
    return found


def topic(operation: Operation, name: str = TOPIC) -> Right:
    return operation, ResourceType.TOPIC, name


def group(operation: Operation, name: str = GROUP) -> Right:
    return operation, ResourceType.GROUP, name


def txn(operation: Operation, name: str = TXN) -> Right:
    return operation, ResourceType.TRANSACTIONAL_ID, name


def cluster(operation: Operation) -> Right:
    return operation, ResourceType.CLUSTER, CLUSTER


def record_batch(world: World | None = None) -> bytes:
    """One record; of the transaction of the world, if there is one."""
    records = [NewRecord(b"k", b"v")]
    if world is None:
        return bytes(build_batch(records))
    return bytes(
        build_batch(
            records,
            producer_id=world.producer_id,
            producer_epoch=world.producer_epoch,
            base_sequence=0,
            transactional=True,
        )
    )


def _produce(records: bytes, **more: object) -> dict[str, Any]:
    partition = {"index": 0, "records": records}
    return {
        "acks": 1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": TOPIC, "partition_data": [partition]}],
        **more,
    }


def _fetch(**more: object) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    return {"max_bytes": 10_000, "topics": [{"topic": TOPIC, "partitions": [partition]}], **more}


def _configs(kind: int, name: str) -> dict[str, Any]:
    return {"resources": [{"resource_type": kind, "resource_name": name}]}


def _only(code: int, path: str = "error_code") -> Values:
    return {path: code}


_PARTITION: Final = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
_RESPONSE: Final = "responses.0.partition_responses.0.error_code"
_OFFSET: Final = "topics.0.partitions.0.error_code"
_COMMIT: Final = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
_TXN_TOPICS: Final = [{"name": TOPIC, "partitions": [0]}]
_V3: Final = "results_by_topic_v3_and_below.0.results_by_partition.0.partition_error_code"
_TOPIC_TYPE, _BROKER_TYPE, _METRICS_TYPE, _GROUP_TYPE = 2, 4, 16, 32
_ENTRY: Final = {
    "resource_type": 2,
    "resource_name": "rights-acl",
    "resource_pattern_type": 3,
    "principal": "User:other",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
_FILTER: Final = {
    "resource_type_filter": 2,
    "resource_name_filter": "rights-acl",
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
}
_QUOTA: Final = {
    "validate_only": True,
    "entries": [
        {
            "entity": [{"entity_type": "user", "entity_name": "u"}],
            "ops": [{"key": "producer_byte_rate", "value": 1.0}],
        }
    ],
}


def _envelope(_: World) -> dict[str, Any]:
    """An Envelope from a client, for a request that is not forwarded."""
    return {
        "request_data": request_frame(ApiVersionsRequest(), 0, 1, "client")[4:],
        "request_principal": None,
        "client_host_address": b"\x7f\0\0\x01",
    }


def _records_and_offsets() -> list[Row]:
    return [
        Row("produce", 9, _produce(record_batch()), _only(29, _RESPONSE), (topic(WRITE),),
            allowed=_only(0, _RESPONSE)),
        Row("produce", 13, lambda world: {
                "acks": 1, "timeout_ms": 10_000, "topic_data": [
                    {"topic_id": world.topic_id, "partition_data": [{"index": 0, "records": record_batch()}]}
                ]},
            _only(29, _RESPONSE), (topic(WRITE),), allowed=_only(0, _RESPONSE)),
        Row("produce", 9, lambda world: _produce(record_batch(world), transactional_id=TXN),
            _only(53, _RESPONSE), (txn(WRITE), topic(WRITE)), (_only(29, _RESPONSE),), note="transactional"),
        Row("fetch", 12, _fetch(), _only(29, "responses.0.partitions.0.error_code"), (topic(READ),),
            allowed=_only(0, "responses.0.partitions.0.error_code")),
        Row("fetch", 16, lambda world: _fetch(topics=[{
                "topic_id": world.topic_id,
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}],
            }]),
            {"error_code": 0, "responses.0.partitions.0.error_code": 29}, (topic(READ),),
            allowed=_only(0, "responses.0.partitions.0.error_code")),
        Row("fetch", 12, _fetch(replica_id=7), _only(29, "responses.0.partitions.0.error_code"),
            (cluster(ACTION),), note="follower"),
        Row("list_offsets", 5, {"replica_id": -1, "topics": [
                {"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]},
            {_OFFSET: 29, "topics.0.partitions.0.offset": -1}, (topic(DESCRIBE),), allowed=_only(0, _OFFSET)),
        Row("delete_records", 2, {"timeout_ms": 1000, "topics": [
                {"name": TOPIC, "partitions": [{"partition_index": 0, "offset": 0}]}]},
            {_OFFSET: 29, "topics.0.partitions.0.low_watermark": -1}, (topic(DELETE),),
            allowed=_only(0, _OFFSET)),
        Row("offset_for_leader_epoch", 4, {"replica_id": -1, "topics": [
                {"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]},
            _only(29, _OFFSET), (topic(DESCRIBE),), allowed=_only(0, _OFFSET), alternatives=(cluster(ACTION),)),
        Row("describe_producers", 0, {"topics": [{"name": TOPIC, "partition_indexes": [0]}]},
            _only(29, _OFFSET), (topic(READ),), allowed=_only(0, _OFFSET)),
    ]  # fmt: skip


def _metadata() -> list[Row]:
    hidden = {"topics.0.error_code": 29, "topics.0.topic_id": ZERO_UUID, "topics.0.partitions.len": 0}
    named = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": False}
    return [
        Row("metadata", 12, named, {**hidden, "topics.0.name": TOPIC}, (topic(DESCRIBE),),
            allowed={"topics.0.error_code": 0, "topics.0.partitions.len": 1}),
        Row("metadata", 12, {**named, "topics": [{"name": "absent"}]}, {**hidden, "topics.0.name": "absent"},
            (topic(DESCRIBE, "absent"),), allowed={"topics.0.error_code": 3}, note="absent"),
        Row("metadata", 12, lambda world: {"topics": [{"topic_id": world.topic_id, "name": None}]},
            {"topics.0.error_code": 29, "topics.0.name": None, "topics.0.partitions.len": 0},
            (topic(DESCRIBE),), allowed={"topics.0.error_code": 0, "topics.0.name": TOPIC}, note="by-id"),
        Row("metadata", 12, {"topics": None}, {f"topics.has:{TOPIC}": False}, (topic(DESCRIBE),),
            allowed={f"topics.has:{TOPIC}": True}, note="all"),
        Row("metadata", 8, {"topics": [], "include_cluster_authorized_operations": True},
            {"cluster_authorized_operations": 0}, (cluster(DESCRIBE),), note="operations"),
        Row("describe_topic_partitions", 0, {"topics": [{"name": TOPIC}]},
            {**hidden, "topics.0.name": TOPIC}, (topic(DESCRIBE),),
            allowed={"topics.0.error_code": 0, "topics.0.partitions.len": 1}),
        Row("describe_topic_partitions", 0, {"topics": []}, {f"topics.has:{TOPIC}": False}, (topic(DESCRIBE),),
            allowed={f"topics.has:{TOPIC}": True}, note="all"),
        Row("describe_cluster", 0, {"include_cluster_authorized_operations": True},
            {"error_code": 0, "cluster_authorized_operations": 0}, (cluster(DESCRIBE),)),
    ]  # fmt: skip


def _groups() -> list[Row]:
    member = {"group_id": GROUP, "member_id": "m", "generation_id": 1}
    fetched = {"groups": [{"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}]}
    beat = {"group_id": "rights-c", "member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 0,
            "rebalance_timeout_ms": 1000, "subscribed_topic_names": [TOPIC], "topic_partitions": []}  # fmt: skip
    return [
        Row("offset_commit", 8, {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": _COMMIT},
            _only(30, _OFFSET), (group(READ), topic(READ)), (_only(29, _OFFSET),), _only(0, _OFFSET)),
        Row("offset_fetch", 8, fetched, {"groups.0.error_code": 30, "groups.0.topics.len": 0},
            (group(DESCRIBE), topic(DESCRIBE)), (_only(29, f"groups.0.{_OFFSET}"),),
            _only(0, f"groups.0.{_OFFSET}")),
        Row("offset_fetch", 8, {"groups": [{"group_id": GROUP, "topics": None}]}, _only(30, "groups.0.error_code"),
            (group(DESCRIBE), topic(DESCRIBE)), ({"groups.0.error_code": 0, "groups.0.topics.len": 0},),
            {"groups.0.error_code": 0}, note="all"),
        Row("offset_fetch", 1, {"group_id": GROUP, "topics": [{"name": TOPIC, "partition_indexes": [0]}]},
            _only(30, _OFFSET), (group(DESCRIBE), topic(DESCRIBE)), (_only(29, _OFFSET),), _only(0, _OFFSET)),
        Row("find_coordinator", 4, {"coordinator_keys": [GROUP]}, {
                "coordinators.0.error_code": 30, "coordinators.0.node_id": -1}, (group(DESCRIBE),)),
        Row("find_coordinator", 2, {"key": TXN, "key_type": 1}, {"error_code": 53, "node_id": -1},
            (txn(DESCRIBE),)),
        Row("find_coordinator", 6, {"coordinator_keys": ["g:AAAAAAAAAAAAAAAAAAAAAA:0"], "key_type": 2},
            _only(31, "coordinators.0.error_code"), (cluster(ACTION),), note="share"),
        Row("join_group", 5, {
                "group_id": "rights-j", "session_timeout_ms": 10_000, "protocol_type": "consumer",
                "rebalance_timeout_ms": 1000, "protocols": [{"name": "range"}]},
            _only(30), (group(READ, "rights-j"),), allowed=_only(79)),
        Row("heartbeat", 3, member, _only(30), (group(READ),), allowed=_only(25)),
        Row("leave_group", 3, {"group_id": GROUP, "members": [{"member_id": "m"}]}, _only(30), (group(READ),)),
        Row("sync_group", 3, member, _only(30), (group(READ),)),
        Row("describe_groups", 5, {"groups": [GROUP]}, {"groups.0.error_code": 30, "groups.0.members.len": 0},
            (group(DESCRIBE),), allowed=_only(0, "groups.0.error_code")),
        Row("list_groups", 4, {}, {"error_code": 0, f"groups.has:{GROUP}": False}, (group(DESCRIBE),),
            allowed={f"groups.has:{GROUP}": True}, alternatives=(cluster(DESCRIBE),)),
        Row("delete_groups", 2, {"groups_names": ["rights-none"]}, _only(30, "results.0.error_code"),
            (group(DELETE, "rights-none"),), allowed=_only(69, "results.0.error_code")),
        Row("offset_delete", 0, {"group_id": GROUP, "topics": _PARTITION}, {"error_code": 30, "topics.len": 0},
            (group(DELETE), topic(READ)), (_only(29, _OFFSET),), _only(0)),
        Row("consumer_group_heartbeat", 1, beat, _only(30), (group(READ, "rights-c"), topic(DESCRIBE)),
            ({"error_code": 29, "error_message": None},), _only(0)),
        Row("consumer_group_describe", 0, {"group_ids": [GROUP]}, _only(30, "groups.0.error_code"),
            (group(DESCRIBE),), allowed=_only(69, "groups.0.error_code")),
    ]  # fmt: skip


def _transactions() -> list[Row]:
    def producer(world: World) -> dict[str, Any]:
        return {"producer_id": world.producer_id, "producer_epoch": world.producer_epoch}

    return [
        Row("init_producer_id", 4, {"transactional_id": TXN, "transaction_timeout_ms": 1000, "producer_id": 1},
            {"error_code": 53, "producer_id": -1, "producer_epoch": -1}, (txn(WRITE),), allowed=_only(42)),
        Row("init_producer_id", 6, {
                "transactional_id": TXN, "transaction_timeout_ms": 1000, "enable2_pc": True, "producer_id": 1},
            _only(53), (txn(WRITE), txn(Operation.TWO_PHASE_COMMIT)), (_only(53),), _only(42), note="two-phase"),
        Row("init_producer_id", 4, {"transactional_id": None}, {"error_code": 31, "producer_id": -1},
            (cluster(Operation.IDEMPOTENT_WRITE),), allowed=_only(0), alternatives=(topic(WRITE, "*"),),
            note="idempotent"),
        Row("add_partitions_to_txn", 3, lambda world: {
                "v3_and_below_transactional_id": TXN, "v3_and_below_producer_id": world.producer_id,
                "v3_and_below_producer_epoch": world.producer_epoch, "v3_and_below_topics": _TXN_TOPICS},
            _only(53, _V3), (txn(WRITE), topic(WRITE)), (_only(29, _V3),), _only(0, _V3)),
        Row("add_partitions_to_txn", 4, {"transactions": [{"transactional_id": TXN, "topics": _TXN_TOPICS}]},
            {"error_code": 31, "results_by_transaction.len": 0}, (cluster(ACTION),), note="broker"),
        Row("add_offsets_to_txn", 3, lambda world: {**producer(world), "transactional_id": TXN, "group_id": GROUP},
            _only(53), (txn(WRITE), group(READ)), (_only(30),), _only(0)),
        Row("txn_offset_commit", 3, lambda world: {
                **producer(world), "transactional_id": TXN, "group_id": GROUP, "topics": _COMMIT},
            _only(53, _OFFSET), (txn(WRITE), group(READ), topic(READ)), (_only(30, _OFFSET), _only(29, _OFFSET))),
        Row("end_txn", 3, {"transactional_id": TXN, "producer_id": 1, "producer_epoch": 0}, _only(53),
            (txn(WRITE),)),
        Row("write_txn_markers", 1, {"markers": [
                {"producer_id": 5, "topics": [{"name": "absent", "partition_indexes": [0]}]}]},
            _only(31, "markers.0.topics.0.partitions.0.error_code"), (cluster(ALTER),),
            allowed=_only(3, "markers.0.topics.0.partitions.0.error_code"), alternatives=(cluster(ACTION),)),
        Row("describe_transactions", 0, {"transactional_ids": [TXN]},
            {"transaction_states.0.error_code": 53, "transaction_states.0.topics.len": 0},
            (txn(DESCRIBE),), allowed=_only(0, "transaction_states.0.error_code")),
        Row("list_transactions", 0, {}, {"error_code": 0, f"transaction_states.has:{TXN}": False}, (txn(DESCRIBE),),
            allowed={f"transaction_states.has:{TXN}": True}),
    ]  # fmt: skip


def _administration() -> list[Row]:
    new = {"name": "rights-new", "num_partitions": 1, "replication_factor": 1}
    result, response = "results.0.error_code", "responses.0.error_code"
    config = _configs(_TOPIC_TYPE, TOPIC)
    validate = {**config, "validate_only": True}
    return [
        Row("create_topics", 7, {"topics": [new], "validate_only": True, "timeout_ms": 10_000},
            _only(29, "topics.0.error_code"),
            (topic(CREATE, "rights-new"),), alternatives=(cluster(CREATE),),
            allowed={"topics.0.error_code": 0, "topics.0.topic_config_error_code": 29,
                     "topics.0.num_partitions": -1, "topics.0.configs.len": 0}),
        Row("delete_topics", 5, {"topic_names": ["absent"], "timeout_ms": 10_000}, _only(29, response),
            (topic(DESCRIBE, "absent"), topic(DELETE, "absent")), (_only(3, response),), _only(3, response),
            alternatives=(cluster(DELETE),)),
        Row("create_partitions", 3, {
                "topics": [{"name": TOPIC, "count": 2, "assignments": None}], "validate_only": True,
                "timeout_ms": 10_000},
            {result: 29, "results.0.error_message": None}, (topic(ALTER),), allowed=_only(0, result)),
        Row("describe_acls", 3, _FILTER, {"error_code": 31, "resources.len": 0}, (cluster(DESCRIBE),),
            allowed=_only(0)),
        Row("create_acls", 3, {"creations": [_ENTRY]}, _only(31, result), (cluster(ALTER),),
            allowed=_only(0, result)),
        Row("delete_acls", 3, {"filters": [_FILTER]}, _only(31, "filter_results.0.error_code"),
            (cluster(ALTER),), allowed=_only(0, "filter_results.0.error_code")),
        Row("describe_configs", 4, config, {result: 29, "results.0.configs.len": 0},
            (topic(DESCRIBE_CONFIGS),), allowed=_only(0, result)),
        Row("describe_configs", 4, _configs(_BROKER_TYPE, ""), _only(31, result), (cluster(DESCRIBE_CONFIGS),),
            allowed=_only(0, result), note="brokers"),
        Row("describe_configs", 4, _configs(_METRICS_TYPE, "m"), _only(31, result),
            (cluster(DESCRIBE_CONFIGS),), allowed=_only(0, result), note="metrics"),
        Row("describe_configs", 4, _configs(_GROUP_TYPE, GROUP), _only(30, result), (group(DESCRIBE_CONFIGS),),
            allowed=_only(0, result), note="group"),
        Row("alter_configs", 2, validate, _only(29, response), (topic(ALTER_CONFIGS),), allowed=_only(0, response)),
        Row("incremental_alter_configs", 1, validate, _only(29, response), (topic(ALTER_CONFIGS),),
            allowed=_only(0, response)),
        Row("incremental_alter_configs", 1, {**_configs(_BROKER_TYPE, ""), "validate_only": True},
            _only(31, response), (cluster(ALTER_CONFIGS),), allowed=_only(0, response), note="brokers"),
        Row("incremental_alter_configs", 1, {**_configs(_GROUP_TYPE, GROUP), "validate_only": True},
            _only(30, response), (group(ALTER_CONFIGS),), allowed=_only(0, response), note="group"),
        Row("describe_log_dirs", 4, {"topics": None}, {"error_code": 31, "results.len": 0},
            (cluster(DESCRIBE),), allowed=_only(0)),
        Row("elect_leaders", 2, {"topic_partitions": [{"topic": TOPIC, "partitions": [0]}], "timeout_ms": 1000},
            {"error_code": 31, "replica_election_results.0.partition_result.0.error_code": 31},
            (cluster(ALTER),), allowed=_only(0)),
        Row("alter_partition_reassignments", 0, {"timeout_ms": 1000, "topics": [
                {"name": "absent", "partitions": [{"partition_index": 0, "replicas": None}]}]},
            {"error_code": 31, "responses.0.partitions.0.error_code": 31}, (cluster(ALTER),), allowed=_only(0)),
        Row("list_partition_reassignments", 0, {"topics": None, "timeout_ms": 1000}, _only(31),
            (cluster(DESCRIBE),), allowed=_only(0)),
        Row("describe_client_quotas", 1, {"components": []}, {"error_code": 31, "entries": None},
            (cluster(DESCRIBE_CONFIGS),), allowed=_only(0)),
        Row("alter_client_quotas", 1, _QUOTA, _only(31, "entries.0.error_code"), (cluster(ALTER_CONFIGS),),
            allowed=_only(0, "entries.0.error_code")),
        Row("describe_user_scram_credentials", 0, {"users": [{"name": "u"}]}, {"error_code": 31, result: 31},
            (cluster(DESCRIBE),), allowed=_only(91, result)),
        Row("alter_user_scram_credentials", 0, {"deletions": [{"name": "u", "mechanism": 1}]},
            _only(31, result), (cluster(ALTER),), allowed=_only(91, result)),
        Row("describe_quorum", 2, {"topics": [
                {"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]},
            {"error_code": 31, "topics.len": 0}, (cluster(DESCRIBE),), allowed=_only(0)),
        Row("update_features", 1, {"timeout_ms": 1000}, _only(31), (cluster(ALTER),)),
        Row("alter_replica_log_dirs", 2,
            {"dirs": [{"path": "/nowhere", "topics": [{"name": TOPIC, "partitions": [0]}]}]},
            _only(31, "results.0.partitions.0.error_code"), (cluster(ALTER),),
            allowed=_only(57, "results.0.partitions.0.error_code")),
        Row("add_raft_voter", 1, {"voter_id": -1}, _only(31), (cluster(ALTER),), allowed=_only(104)),
        Row("remove_raft_voter", 0, {"voter_id": -1}, _only(31), (cluster(ALTER),), allowed=_only(104)),
        Row("unregister_broker", 0, {"broker_id": 999}, _only(31), (cluster(ALTER),), allowed=_only(102)),
        Row("list_config_resources", 1, {}, {"error_code": 31, "config_resources.len": 0},
            (cluster(DESCRIBE_CONFIGS),), allowed=_only(0)),
    ]  # fmt: skip


def _open() -> list[Row]:
    """What needs no right."""
    return [
        Row("api_versions", 0, {}, _only(0), allowed=_only(0)),
        Row("sasl_handshake", 1, {"mechanism": "PLAIN"}, _only(34), allowed=_only(34)),
        Row("sasl_authenticate", 2, {"auth_bytes": b"x"}, _only(34), allowed=_only(34)),
        Row("get_telemetry_subscriptions", 0, {}, _only(0), allowed=_only(0)),
        Row("push_telemetry", 0, {}, {}, allowed={}),
    ]


def _of_brokers() -> list[Row]:
    """What brokers send to controllers: a client needs ClusterAction, and then has the errors of a broker."""
    needs = (cluster(ACTION),)
    requests: list[tuple[str, int, Any]] = [
        ("alter_partition", 3, {"broker_id": 999}),
        ("envelope", 0, _envelope),
        ("broker_registration", 0, {"broker_id": 999, "cluster_id": "another"}),
        ("broker_heartbeat", 0, {"broker_id": 999}),
        ("allocate_producer_ids", 0, {"broker_id": 999}),
        ("controller_registration", 0, {"controller_id": 999}),
        ("assign_replicas_to_dirs", 0, {"broker_id": 999}),
        ("update_raft_voter", 0, {"voter_id": 999}),
    ]
    return [
        Row(api, version, fields, _only(31), needs, listener=ListenerType.CONTROLLER)
        for api, version, fields in requests
    ]


def _tokens(listener: ListenerType) -> list[Row]:
    """A client without authentication has no token; with it, everyone renews its own tokens."""
    owner = {"owner_principal_type": "User", "owner_principal_name": "admin"}
    unknown, none = _only(62), _only(64)
    return [
        Row("create_delegation_token", 3, owner, _only(65),
            ((Operation.CREATE_TOKENS, ResourceType.USER, "User:admin"),), allowed=_only(0), anonymous=none,
            listener=listener),
        Row("renew_delegation_token", 2, {"hmac": b"x"}, unknown, allowed=unknown, anonymous=none,
            listener=listener),
        Row("expire_delegation_token", 2, {"hmac": b"x"}, unknown, allowed=unknown, anonymous=none,
            listener=listener),
        Row("describe_delegation_token", 3,
            {"owners": [{"principal_type": "User", "principal_name": "admin"}]},
            {"error_code": 0, "tokens.len": 0},
            ((Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:admin"),), allowed=_only(0),
            anonymous=none, listener=listener),
    ]  # fmt: skip


QUORUM: Final = ("fetch", "vote", "begin_quorum_epoch", "end_quorum_epoch", "fetch_snapshot")
"""APIs of controllers that a quorum of one does not serve."""
_ON_BOTH: Final = frozenset(
    {
        "add_raft_voter", "alter_client_quotas", "alter_configs", "alter_partition_reassignments",
        "alter_user_scram_credentials", "remove_raft_voter",
        "api_versions", "create_acls", "create_partitions", "create_topics", "delete_acls", "delete_topics",
        "describe_acls", "describe_configs", "describe_quorum", "describe_user_scram_credentials",
        "elect_leaders", "incremental_alter_configs",
        "list_partition_reassignments", "sasl_authenticate", "sasl_handshake", "unregister_broker",
        "update_features",
    }
)  # fmt: skip
_BROKER_ROWS: Final = [
    *_records_and_offsets(), *_metadata(), *_groups(), *_transactions(), *_administration(), *_open(),
]  # fmt: skip
ROWS: Final = [
    *_BROKER_ROWS,
    *(
        Row(**{**vars(row), "listener": ListenerType.CONTROLLER})
        for row in _BROKER_ROWS
        if row.api in _ON_BOTH
    ),
    *_of_brokers(),
    *_tokens(ListenerType.BROKER),
    *_tokens(ListenerType.CONTROLLER),
    Row("describe_cluster", 1, {"endpoint_type": 2}, _only(31), (cluster(ALTER),), allowed=_only(0),
        listener=ListenerType.CONTROLLER),
]  # fmt: skip
"""All rows, but those of QUORUM."""
