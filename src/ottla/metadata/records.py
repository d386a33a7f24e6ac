"""The records of the cluster metadata log. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class BrokerEndpoint(Message):
    name: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("uint16", "0+")] = 0
    security_protocol: Annotated[int, F("int16", "0+")] = 0


class BrokerFeature(Message):
    name: Annotated[str, F("string", "0+")] = ""
    min_supported_version: Annotated[int, F("int16", "0+")] = 0
    max_supported_version: Annotated[int, F("int16", "0+")] = 0


class RegisterBrokerRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=0, versions="0-4", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    is_migrating_zk_broker: Annotated[bool, F("bool", "2+")] = False
    incarnation_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    broker_epoch: Annotated[int, F("int64", "0+")] = 0
    end_points: Annotated[list[BrokerEndpoint], F("[]struct", "0+")] = []
    features: Annotated[list[BrokerFeature], F("[]struct", "0+")] = []
    rack: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    fenced: Annotated[bool, F("bool", "0+")] = True
    in_controlled_shutdown: Annotated[bool, F("bool", "1+")] = False
    log_dirs: Annotated[list[Uuid], F("[]uuid", "3+", tag=0, tagged="3+")] = []
    cordoned_log_dirs: Annotated[list[Uuid] | None, F("[]uuid", "4+", nullable="4+", tag=1, tagged="4+")] = (
        None
    )


class UnregisterBrokerRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=1, versions="0", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = 0


class TopicRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=2, versions="0", flexible="0+")

    name: Annotated[str, F("string", "0+")] = ""
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID


class PartitionRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=3, versions="0-2", flexible="0+")

    partition_id: Annotated[int, F("int32", "0+")] = -1
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    replicas: Annotated[list[int], F("[]int32", "0+")] = []
    isr: Annotated[list[int], F("[]int32", "0+")] = []
    removing_replicas: Annotated[list[int], F("[]int32", "0+")] = []
    adding_replicas: Annotated[list[int], F("[]int32", "0+")] = []
    leader: Annotated[int, F("int32", "0+")] = -1
    leader_recovery_state: Annotated[int, F("int8", "0+", tag=0, tagged="0+")] = 0
    leader_epoch: Annotated[int, F("int32", "0+")] = -1
    partition_epoch: Annotated[int, F("int32", "0+")] = -1
    directories: Annotated[list[Uuid], F("[]uuid", "1+")] = []
    eligible_leader_replicas: Annotated[
        list[int] | None, F("[]int32", "2+", nullable="2+", tag=1, tagged="2+")
    ] = None
    last_known_elr: Annotated[list[int] | None, F("[]int32", "2+", nullable="2+", tag=2, tagged="2+")] = None


class ConfigRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=4, versions="0", flexible="0+")

    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""
    name: Annotated[str, F("string", "0+")] = ""
    value: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class PartitionChangeRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=5, versions="0-2", flexible="0+")

    partition_id: Annotated[int, F("int32", "0+")] = -1
    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    isr: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+", tag=0, tagged="0+")] = None
    leader: Annotated[int, F("int32", "0+", tag=1, tagged="0+")] = -2
    replicas: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+", tag=2, tagged="0+")] = None
    removing_replicas: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+", tag=3, tagged="0+")] = (
        None
    )
    adding_replicas: Annotated[list[int] | None, F("[]int32", "0+", nullable="0+", tag=4, tagged="0+")] = None
    leader_recovery_state: Annotated[int, F("int8", "0+", tag=5, tagged="0+")] = -1
    directories: Annotated[list[Uuid] | None, F("[]uuid", "1+", nullable="1+", tag=8, tagged="1+")] = None
    eligible_leader_replicas: Annotated[
        list[int] | None, F("[]int32", "2+", nullable="2+", tag=6, tagged="2+")
    ] = None
    last_known_elr: Annotated[list[int] | None, F("[]int32", "2+", nullable="2+", tag=7, tagged="2+")] = None


class FenceBrokerRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=7, versions="0", flexible="0+")

    id: Annotated[int, F("int32", "0+")] = 0
    epoch: Annotated[int, F("int64", "0+")] = 0


class UnfenceBrokerRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=8, versions="0", flexible="0+")

    id: Annotated[int, F("int32", "0+")] = 0
    epoch: Annotated[int, F("int64", "0+")] = 0


class RemoveTopicRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=9, versions="0", flexible="0+")

    topic_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID


class DelegationTokenRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=10, versions="0", flexible="0+")

    owner: Annotated[str, F("string", "0+")] = ""
    requester: Annotated[str, F("string", "0+")] = ""
    renewers: Annotated[list[str], F("[]string", "0+")] = []
    issue_timestamp: Annotated[int, F("int64", "0+")] = 0
    max_timestamp: Annotated[int, F("int64", "0+")] = 0
    expiration_timestamp: Annotated[int, F("int64", "0+")] = 0
    token_id: Annotated[str, F("string", "0+")] = ""


class UserScramCredentialRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=11, versions="0", flexible="0+")

    name: Annotated[str, F("string", "0+")] = ""
    mechanism: Annotated[int, F("int8", "0+")] = 0
    salt: Annotated[bytes, F("bytes", "0+")] = b""
    stored_key: Annotated[bytes, F("bytes", "0+")] = b""
    server_key: Annotated[bytes, F("bytes", "0+")] = b""
    iterations: Annotated[int, F("int32", "0+")] = 0


class FeatureLevelRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=12, versions="0", flexible="0+")

    name: Annotated[str, F("string", "0+")] = ""
    feature_level: Annotated[int, F("int16", "0+")] = 0


class EntityData(Message):
    entity_type: Annotated[str, F("string", "0+")] = ""
    entity_name: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class ClientQuotaRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=14, versions="0", flexible="0+")

    entity: Annotated[list[EntityData], F("[]struct", "0+")] = []
    key: Annotated[str, F("string", "0+")] = ""
    value: Annotated[float, F("float64", "0+")] = 0.0
    remove: Annotated[bool, F("bool", "0+")] = False


class ProducerIdsRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=15, versions="0", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = -1
    next_producer_id: Annotated[int, F("int64", "0+")] = 0


class BrokerRegistrationChangeRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=17, versions="0-3", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = 0
    fenced: Annotated[int, F("int8", "0+", tag=0, tagged="0+")] = 0
    in_controlled_shutdown: Annotated[int, F("int8", "1+", tag=1, tagged="1+")] = 0
    log_dirs: Annotated[list[Uuid], F("[]uuid", "2+", tag=2, tagged="2+")] = []
    cordoned_log_dirs: Annotated[list[Uuid] | None, F("[]uuid", "3+", nullable="3+", tag=3, tagged="3+")] = (
        None
    )


class AccessControlEntryRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=18, versions="0", flexible="0+")

    id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    resource_type: Annotated[int, F("int8", "0+")] = 0
    resource_name: Annotated[str, F("string", "0+")] = ""
    pattern_type: Annotated[int, F("int8", "0+")] = 0
    principal: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    operation: Annotated[int, F("int8", "0+")] = 0
    permission_type: Annotated[int, F("int8", "0+")] = 0


class RemoveAccessControlEntryRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=19, versions="0", flexible="0+")

    id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID


class NoOpRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=20, versions="0", flexible="0+")


class ZkMigrationStateRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=21, versions="0", flexible="0+")

    zk_migration_state: Annotated[int, F("int8", "0+")] = 0


class RemoveUserScramCredentialRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=22, versions="0", flexible="0+")

    name: Annotated[str, F("string", "0+")] = ""
    mechanism: Annotated[int, F("int8", "0+")] = 0


class BeginTransactionRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=23, versions="0", flexible="0+")

    name: Annotated[str | None, F("string", "0+", nullable="0+", tag=0, tagged="0+")] = None


class EndTransactionRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=24, versions="0", flexible="0+")


class AbortTransactionRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=25, versions="0", flexible="0+")

    reason: Annotated[str | None, F("string", "0+", nullable="0+", tag=0, tagged="0+")] = None


class RemoveDelegationTokenRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=26, versions="0", flexible="0+")

    token_id: Annotated[str, F("string", "0+")] = ""


class ControllerEndpoint(Message):
    name: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("uint16", "0+")] = 0
    security_protocol: Annotated[int, F("int16", "0+")] = 0


class ControllerFeature(Message):
    name: Annotated[str, F("string", "0+")] = ""
    min_supported_version: Annotated[int, F("int16", "0+")] = 0
    max_supported_version: Annotated[int, F("int16", "0+")] = 0


class RegisterControllerRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=27, versions="0", flexible="0+")

    controller_id: Annotated[int, F("int32", "0+")] = 0
    incarnation_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    zk_migration_ready: Annotated[bool, F("bool", "0+")] = False
    end_points: Annotated[list[ControllerEndpoint], F("[]struct", "0+")] = []
    features: Annotated[list[ControllerFeature], F("[]struct", "0+")] = []


class ClearElrRecord(Message):
    SPEC: ClassVar[Spec] = Spec("metadata", api_key=28, versions="0", flexible="0+")

    topic_name: Annotated[str, F("string", "0+")] = ""
