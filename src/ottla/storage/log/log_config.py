"""The settings of one log: a field for every topic setting, named after it with underscores for dots.

Defaults are Kafka's, except `flush_messages`, which is 1: a record counts once it is synced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

_LONG_MAX = 2**63 - 1
_WEEK_MS = 7 * 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class LogConfig:
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * 60 * 60 * 1000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = 1
    flush_ms: int = _LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = _LONG_MAX
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = _WEEK_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = _WEEK_MS
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_values(cls, values: Mapping[str, object]) -> Self:
        """From typed values under Kafka's names.

        What is missing keeps its default, what is unknown is left out.
        """
        return replace(cls(), **_fields(values))

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """Age, by record time, at which a segment is full.

        The active segment is not compacted, so records that must be compacted in time must not stay in it.
        """
        if "compact" in self.cleanup_policy:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms

    @property
    def deleted(self) -> bool:
        """Whether old records are removed by age and size."""
        return "delete" in self.cleanup_policy


_NAMES = {field.name.replace("_", "."): field.name for field in fields(LogConfig)}


def _fields(values: Mapping[str, object]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in values.items():
        name = _NAMES.get(key)
        if name == "cleanup_policy":
            found[name] = frozenset(_words(value))
        elif name is not None and name.endswith("throttled_replicas"):
            found[name] = tuple(_words(value))
        elif name is not None:
            found[name] = value
    return found


def _words(value: object) -> list[str]:
    """A list setting, given parsed or as its text."""
    if isinstance(value, str):
        return [word.strip() for word in value.split(",") if word.strip()]
    if isinstance(value, Iterable):
        return [str(word) for word in value]
    raise TypeError(f"{value!r} is not a list of words")
