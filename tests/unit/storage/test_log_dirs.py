"""What `LogDirs` tells whoever watches its logs."""

from __future__ import annotations

import random

from ottla.base.ids import TopicPartition
from ottla.storage.log import Log
from ottla.storage.log_config import LogConfig
from ottla.storage.log_dirs import LogDirs
from ottla.testing.disk import SimDisk
from tests.support.logs import TOPIC_ID, batch

HERE, THERE = TopicPartition("here", 0), TopicPartition("there", 0)


class Watcher:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def truncated(self, log: Log, offset: int) -> None:
        self.told.append(("truncated", log.topic_partition, offset))

    def deleted(self, log: Log) -> None:
        self.told.append(("deleted", log.topic_partition, log.directory))


def test_a_watcher_learns_what_is_cut_and_what_is_deleted() -> None:
    dirs = LogDirs(SimDisk(random.Random(1)), ["/d"], random.Random(2))
    dirs.claim("cluster", 1)
    dirs.load(lambda _: LogConfig(), now_ms=5)
    watcher = Watcher()
    dirs.watch(watcher)
    cut = dirs.create_log(HERE, TOPIC_ID, LogConfig(), now_ms=5)
    dirs.create_log(THERE, TOPIC_ID, LogConfig(), now_ms=5)
    for _ in range(3):
        cut.append(batch(), 0, 5)
    cut.flush(5)
    cut.truncate_to(1, 6)
    dirs.delete_log(THERE, now_ms=7)
    assert watcher.told == [("truncated", HERE, 1), ("deleted", THERE, "/d/there-0")]
