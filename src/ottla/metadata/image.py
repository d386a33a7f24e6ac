"""The cluster metadata at one offset of the log: immutable images of features, nodes, topics and settings.

Changes are in `delta`, the encoding as records is in `snapshot` and `record_codec`.

Invariants:
- an image never changes; a new one shares every part that did not change with its predecessor (copy on write:
  creating a topic copies the two topic tables shallowly and nothing below them);
- `topics.by_name` and `topics.by_id` contain the same topics, in the order in which they were created;
- partitions of a topic are in ascending order of their index.

Concurrency: any task may read any image at any time.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Any, Final

import msgspec

from ottla.base.ids import ZERO_UUID
from ottla.metadata.records import AccessControlEntryRecord, DelegationTokenRecord, UserScramCredentialRecord

NO_LEADER: Final = -1
DIRECTORY_UNASSIGNED: Final = ZERO_UUID
DIRECTORY_LOST: Final = uuid.UUID(int=1)
DIRECTORY_MIGRATING: Final = uuid.UUID(int=2)
RESERVED_DIRECTORIES: Final = frozenset({DIRECTORY_UNASSIGNED, DIRECTORY_LOST, DIRECTORY_MIGRATING})
DIRECTORY_IDS_MIN: Final = 100
"""The lowest number that the id of a directory can have. Those below it are reserved."""

METADATA_VERSION: Final = "metadata.version"

_EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})


class ResourceType(IntEnum):
    """Resources that have settings, numbered as in ConfigRecord and the config APIs."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


ConfigResource = tuple[int, str]
DEFAULT_BROKER: Final[ConfigResource] = (ResourceType.BROKER, "")


class Endpoint(msgspec.Struct, frozen=True):
    """One listener of a broker or controller, as others reach it."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class FeatureRange(msgspec.Struct, frozen=True):
    """The levels of one feature that a node can run."""

    name: str
    min_version: int
    max_version: int


class BrokerImage(msgspec.Struct, frozen=True):
    """A registered broker."""

    broker_id: int
    epoch: int
    incarnation_id: uuid.UUID
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[uuid.UUID, ...] = ()
    cordoned_log_dirs: tuple[uuid.UUID, ...] | None = None

    @property
    def active(self) -> bool:
        """True if the broker may lead partitions."""
        return not self.fenced and not self.in_controlled_shutdown

    def default_directory(self) -> uuid.UUID:
        """The directory of a new replica; unassigned if the broker has more than one."""
        return self.log_dirs[0] if len(self.log_dirs) == 1 else DIRECTORY_UNASSIGNED


class ControllerImage(msgspec.Struct, frozen=True):
    """A registered controller."""

    controller_id: int
    incarnation_id: uuid.UUID
    zk_migration_ready: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()


class PartitionImage(msgspec.Struct, frozen=True, gc=False):
    """One partition: its replicas, in-sync replicas and leader."""

    replicas: tuple[int, ...]
    directories: tuple[uuid.UUID, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = 0
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    def directory_of(self, broker_id: int) -> uuid.UUID:
        """The log directory of the replica of a broker; unassigned if it is not in the metadata."""
        if broker_id in self.replicas and len(self.directories) == len(self.replicas):
            return self.directories[self.replicas.index(broker_id)]
        return DIRECTORY_UNASSIGNED

    def is_online(self, broker_id: int, directories: Collection[uuid.UUID]) -> bool:
        """Whether the replica of a broker is in one of these directories, or its directory is not known."""
        directory_id = self.directory_of(broker_id)
        return directory_id in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING) or directory_id in directories


class TopicImage(msgspec.Struct, frozen=True, gc=False):
    """One topic and its partitions."""

    name: str
    topic_id: uuid.UUID
    partitions: Mapping[int, PartitionImage]


class TopicsImage(msgspec.Struct, frozen=True):
    """All topics, by name and by id."""

    by_name: Mapping[str, TopicImage] = _EMPTY
    by_id: Mapping[uuid.UUID, TopicImage] = _EMPTY


QuotaEntity = tuple[tuple[str, str | None], ...]


class MetadataImage(msgspec.Struct, frozen=True):
    """The metadata after all records up to and including `offset` (-1: no records)."""

    offset: int = -1
    epoch: int = 0
    features: Mapping[str, int] = _EMPTY
    brokers: Mapping[int, BrokerImage] = _EMPTY
    controllers: Mapping[int, ControllerImage] = _EMPTY
    topics: TopicsImage = TopicsImage()
    configs: Mapping[ConfigResource, Mapping[str, str]] = _EMPTY
    next_producer_id: int = 0
    acls: Mapping[uuid.UUID, AccessControlEntryRecord] = _EMPTY
    scram: Mapping[tuple[str, int], UserScramCredentialRecord] = _EMPTY
    quotas: Mapping[QuotaEntity, Mapping[str, float]] = _EMPTY
    tokens: Mapping[str, DelegationTokenRecord] = _EMPTY

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings stored for one resource; empty if there are none."""
        return self.configs.get((resource_type, name), _EMPTY)

    @property
    def metadata_version(self) -> int:
        """The finalized level, which determines the versions in which records are written."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def elr_enabled(self) -> bool:
        return self.features.get("eligible.leader.replicas.version", 0) > 0

    def partition_count(self) -> int:
        return sum(len(topic.partitions) for topic in self.topics.by_id.values())


EMPTY_IMAGE: Final = MetadataImage()
