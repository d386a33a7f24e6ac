"""The small text files of a log directory.

- Offset checkpoints (`recovery-point-`, `log-start-`, `replication-`, `cleaner-offset-checkpoint`): a line
  with the version 0, a line with the number of entries, then `topic partition offset` a line. An empty file
  has no entries.
- `leader-epoch-checkpoint` has the same frame with `epoch start-offset` lines (see `epoch_cache`).
- `partition.metadata`: `version: 0` and `topic_id: <base64 uuid>`, without a last newline.
- `.kafka_cleanshutdown`: a JSON object with version 0 and the broker epoch of the process that stopped
  cleanly.
- `meta.properties`: a Java properties file, version 1, with cluster.id, node.id and directory.id.

Crash policy: every file is replaced as a whole (`Disk.replace`), so a reader sees the old or the new one.
What does not parse raises `CorruptCheckpoint` naming file and line; the caller decides whether it can do
without.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.base.errors import OttlaError
from ottla.base.files import Disk
from ottla.base.ids import TopicPartition, Uuid, parse_uuid, uuid_text

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
CLEANER_FILE: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
PARTITION_METADATA_FILE: Final = "partition.metadata"
META_PROPERTIES_FILE: Final = "meta.properties"

_VERSION: Final = 0
_META_VERSION: Final = "1"
_ENTRIES_MAX: Final = 10_000_000


class CorruptCheckpoint(OttlaError):
    """A checkpoint file does not parse."""


class MetaProperties(NamedTuple):
    """The identity of a log directory. Fields are None where the file does not contain them."""

    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None


def format_entries(lines: Iterable[str]) -> bytes:
    """The frame of a checkpoint around its lines."""
    body = list(lines)
    return "\n".join([str(_VERSION), str(len(body)), *body, ""]).encode()


def parse_entries(data: bytes, path: str, fields: int) -> list[list[str]]:
    """The lines of a checkpoint, each split into exactly `fields` words."""
    lines = _text(data, path).splitlines()
    if len(lines) < 2:
        if lines and lines[0] != str(_VERSION):
            raise CorruptCheckpoint(f"{path}: version {lines[0]!r}, only {_VERSION} is known")
        return []
    if lines[0] != str(_VERSION):
        raise CorruptCheckpoint(f"{path}: version {lines[0]!r}, only {_VERSION} is known")
    count = parse_number(lines[1], path, 2, _ENTRIES_MAX)
    entries = [line.split() for line in lines[2:]]
    for number, entry in enumerate(entries, 3):
        if len(entry) != fields:
            raise CorruptCheckpoint(f"{path}, line {number}: {len(entry)} words where {fields} belong")
    if len(entries) != count:
        raise CorruptCheckpoint(f"{path}: {count} entries announced, {len(entries)} found")
    return entries


def parse_number(text: str, path: str, line: int, limit: int = 2**63 - 1) -> int:
    """A number from -1 to `limit`."""
    try:
        value = int(text)
    except ValueError:
        raise CorruptCheckpoint(f"{path}, line {line}: {text!r} is not a number") from None
    if not -1 <= value <= limit:
        raise CorruptCheckpoint(f"{path}, line {line}: {value} is out of range")
    return value


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """An offset checkpoint; a missing file has no entries."""
    if not disk.exists(path):
        return {}
    offsets: dict[TopicPartition, int] = {}
    for number, (topic, partition, offset) in enumerate(parse_entries(disk.read(path), path, 3), 3):
        key = TopicPartition(topic, parse_number(partition, path, number, 2**31 - 1))
        offsets[key] = parse_number(offset, path, number)
    return offsets


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items()))
    disk.replace(path, format_entries(lines))


def read_topic_id(disk: Disk, path: str) -> Uuid | None:
    """The topic id in a `partition.metadata` file; None if the file is missing."""
    try:
        data = disk.read(path)
    except FileNotFoundError:
        return None
    fields = {}
    for line in _text(data, path).splitlines():
        name, separator, value = line.partition(":")
        if not separator:
            raise CorruptCheckpoint(f"{path}: {line!r} is not of the form 'name: value'")
        fields[name.strip()] = value.strip()
    if fields.get("version") != str(_VERSION):
        raise CorruptCheckpoint(f"{path}: version {fields.get('version')!r}, only {_VERSION} is known")
    try:
        return parse_uuid(fields.get("topic_id", ""))
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: topic_id: {error}") from None


def write_topic_id(disk: Disk, path: str, topic_id: Uuid) -> None:
    disk.replace(path, topic_id_content(topic_id))


def topic_id_content(topic_id: Uuid) -> bytes:
    """What a `partition.metadata` file holds."""
    return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}".encode()


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """The broker epoch in a clean-shutdown marker, -1 if it holds none, None if there is no marker.

    The presence of the file alone means that the logs need no recovery, so content that does not parse (older
    releases wrote an empty file) is no error.
    """
    if not disk.exists(path):
        return None
    try:
        content = json.loads(disk.read(path))
    except ValueError:
        return -1
    epoch = content.get("brokerEpoch", -1) if isinstance(content, dict) else -1
    return epoch if isinstance(epoch, int) else -1


def write_clean_shutdown(disk: Disk, path: str, broker_epoch: int) -> None:
    content = {"version": _VERSION, "brokerEpoch": broker_epoch}
    disk.replace(path, json.dumps(content, separators=(",", ":")).encode())


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """The identity of a log directory; None if the file is missing."""
    if not disk.exists(path):
        return None
    fields = {}
    for line in _text(disk.read(path), path).splitlines():
        stripped = line.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, separator, value = stripped.partition("=")
        if not separator:
            raise CorruptCheckpoint(f"{path}: {line!r} is not of the form 'name=value'")
        fields[name.strip()] = value.strip()
    if fields.get("version") != _META_VERSION:
        raise CorruptCheckpoint(f"{path}: version {fields.get('version')!r}, only {_META_VERSION} is known")
    node_id = fields.get("node.id")
    directory_id = fields.get("directory.id")
    try:
        return MetaProperties(
            fields.get("cluster.id"),
            None if node_id is None else int(node_id),
            None if directory_id is None else parse_uuid(directory_id),
        )
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from None


def write_meta_properties(disk: Disk, path: str, meta: MetaProperties, comment: str = "") -> None:
    """Write the file as Kafka does: two comment lines (the second usually a date), then the properties."""
    lines = ["#", f"#{comment}"]
    if meta.node_id is not None:
        lines.append(f"node.id={meta.node_id}")
    if meta.directory_id is not None:
        lines.append(f"directory.id={uuid_text(meta.directory_id)}")
    lines.append(f"version={_META_VERSION}")
    if meta.cluster_id is not None:
        lines.append(f"cluster.id={meta.cluster_id}")
    disk.replace(path, "\n".join([*lines, ""]).encode())


def _text(data: bytes, path: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise CorruptCheckpoint(f"{path}: not a text file") from None
