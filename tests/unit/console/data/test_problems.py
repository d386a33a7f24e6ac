"""Problems from a snapshot, with log directories and settings that are queried rarely."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.admin.cluster import LogDir, QuorumInfo, QuorumReplica
from ottla.admin.topics import PartitionInfo, TopicInfo
from ottla.base.clock import SystemClock
from ottla.client.raw.errors import ConnectionLost
from ottla.console.data import problems
from ottla.console.data.problems import DIRECTORIES_EVERY, ProblemFinder

QUORUM = QuorumInfo(0, 1, 10, (QuorumReplica(0, "d", True, True, 10, 0, None, None),))
FULL = LogDir(0, "/data", None, 1, 100, 1000, 10, False)


class Queries:
    """What the finder queries, and how often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.dirs, self.failed = [FULL], {}
        self.listed: list[None] = []
        self.described: list[str] = []
        monkeypatch.setattr(problems, "log_dirs", self._log_dirs)
        monkeypatch.setattr(problems, "min_insync_replicas", self._min_insync_replicas)

    def _log_dirs(self, _: object) -> Any:
        self.listed.append(None)
        return self.dirs, self.failed

    def _min_insync_replicas(self, _: object, topic: str) -> int:
        self.described.append(topic)
        return 2


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> Queries:
    return Queries(monkeypatch)


@pytest.fixture
def finder(queries: Queries) -> ProblemFinder:
    return ProblemFinder(None, SystemClock())  # type: ignore[arg-type]


def topic(isr: tuple[int, ...]) -> TopicInfo:
    return TopicInfo("t", "", False, (PartitionInfo("t", 0, 0, 0, (0, 1, 2), isr),))


def kinds(finder: ProblemFinder, isr: tuple[int, ...], running: tuple[int, ...] = (0, 1)) -> list[str]:
    return [each.kind for each in finder.find([topic(isr)], QUORUM, running)]


def test_partitions_disks_and_the_quorum(finder: ProblemFinder) -> None:
    assert kinds(finder, (0, 1, 2)) == ["disk nearly full"]
    assert kinds(finder, (0,)) == ["under min.insync.replicas", "under-replicated", "disk nearly full"]
    assert [each.kind for each in finder.find([], None, ())] == ["no controller", "disk nearly full"]


def test_settings_are_queried_once_while_replicas_are_missing(
    finder: ProblemFinder, queries: Queries
) -> None:
    for isr in ((0,), (0, 1), (0, 1, 2), (0, 1)):
        kinds(finder, isr)
    assert queries.described == ["t", "t"]


def test_directories_are_queried_with_every_fifth_snapshot(finder: ProblemFinder, queries: Queries) -> None:
    for _ in range(DIRECTORIES_EVERY + 1):
        kinds(finder, (0, 1, 2))
    assert len(queries.listed) == 2


def test_a_broker_that_does_not_respond_is_a_problem_while_it_should_run(
    finder: ProblemFinder, queries: Queries
) -> None:
    queries.dirs, queries.failed = [], {1: ConnectionLost("refused")}
    assert kinds(finder, (0, 1, 2)) == ["unreachable broker"]
    assert kinds(finder, (0, 1, 2), running=(0,)) == []
