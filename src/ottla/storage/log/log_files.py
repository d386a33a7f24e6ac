"""The names of the files and directories of a log.

A partition is kept in `<topic>-<partition>/`. Each segment is named after its base offset, twenty digits, and
has a `.log`, an `.index` and a `.timeindex`; a `.txnindex` only if a transaction was aborted in it; a
`.snapshot` of the producers at that offset. Index files are created when they are first written. A file that is to
be removed has the suffix `.deleted`, one that compaction is writing `.cleaned`, and one that is about to replace its
originals `.swap`. A partition that is being deleted is renamed to end in `-delete`. A copy of a partition that is to
replace it, in another log directory, ends in `-future`.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.base.ids import TopicPartition

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
SEGMENT_SUFFIXES: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)

DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"

DELETE_DIR: Final = "-delete"
STRAY_DIR: Final = "-stray"
FUTURE_DIR: Final = "-future"

_NAME_MAX: Final = 255
_SEGMENT_FILE: Final = re.compile(r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)")
_PARTITION_DIR: Final = re.compile(r"([a-zA-Z0-9._-]{1,249})-(\d{1,10})")


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:020d}{suffix}"


def parse_segment_file(name: str) -> tuple[int, str] | None:
    """(offset, suffix) of a name like 00000000000000000042.log; None for any other."""
    found = _SEGMENT_FILE.fullmatch(name)
    return (int(found[1]), found[2]) if found and int(found[1]) < 2**63 else None


def parse_partition_dir(name: str) -> TopicPartition | None:
    """The partition whose directory this is; None for anything else, such as one being deleted."""
    if name.endswith((DELETE_DIR, STRAY_DIR, FUTURE_DIR)):
        return None
    found = _PARTITION_DIR.fullmatch(name)
    if found is None or found[1] in (".", "..") or int(found[2]) > 2**31 - 1:
        return None
    return TopicPartition(found[1], int(found[2]))


def delete_dir(partition: TopicPartition, unique: str) -> str:
    """The name that marks a partition for removal."""
    return _renamed(partition, unique, DELETE_DIR)


def future_dir(partition: TopicPartition, unique: str) -> str:
    """The name of a copy that is to replace the log in another directory; ValueError if it is too long."""
    name = f"{partition}.{unique}{FUTURE_DIR}"
    if len(name) > _NAME_MAX:
        raise ValueError(f"the name of {partition} is too long for a copy")
    return name


def parse_future_dir(name: str) -> TopicPartition | None:
    """The partition of a copy; None for any other name."""
    stem, dot, _ = name.removesuffix(FUTURE_DIR).rpartition(".")
    return parse_partition_dir(stem) if dot and name.endswith(FUTURE_DIR) else None


def stray_dir(partition: TopicPartition, unique: str) -> str:
    """The name of a partition that the metadata does not know."""
    return _renamed(partition, unique, STRAY_DIR)


def _renamed(partition: TopicPartition, unique: str, suffix: str) -> str:
    """The topic is cut so that the name stays legal."""
    ending = f"-{partition.partition}.{unique}{suffix}"
    return partition.topic[: _NAME_MAX - len(ending)] + ending
