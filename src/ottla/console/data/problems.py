"""Problems of the cluster for the overview: those of `admin.health`, from what a snapshot has already queried.

Partitions and the quorum are as old as the snapshot. Log directories are queried with every fifth one, and
`min.insync.replicas` once for each topic that misses replicas. Not thread-safe; the collector serializes its calls.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ottla.admin.cluster import LogDir, QuorumInfo, log_dirs
from ottla.admin.health import Observed, PartitionHealth, Problem, min_insync_replicas, problems_of
from ottla.admin.session import Session
from ottla.admin.topics import TopicInfo
from ottla.base.clock import Clock
from ottla.client.raw import ClientError

DIRECTORIES_EVERY = 5


class ProblemFinder:
    """Keeps what is not queried with each snapshot."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session, self._clock = session, clock
        self._min_isr: dict[str, int] = {}
        self._dirs: Sequence[LogDir] = ()
        self._unreachable: dict[int, str] = {}
        self._calls = 0

    def find(
        self, topics: Sequence[TopicInfo], quorum: QuorumInfo | None, running: Collection[int]
    ) -> tuple[Problem, ...]:
        """The problems, the worst first. `running` are the brokers that should respond."""
        if self._calls % DIRECTORIES_EVERY == 0:
            self._read_dirs()
        self._calls += 1
        behind = {topic.name for topic in topics if topic.under_replicated}
        self._min_isr = {
            name: self._min_isr.get(name) or min_insync_replicas(self._session, name) for name in behind
        }
        partitions = [
            PartitionHealth(each.tp, each.leader, each.replicas, each.isr)
            for topic in topics
            for each in topic.partitions
        ]
        unreachable = {node: why for node, why in self._unreachable.items() if node in running}
        return tuple(
            problems_of(
                Observed((), quorum, partitions, self._min_isr, self._dirs, unreachable, self._clock.now_ms())
            )
        )

    def _read_dirs(self) -> None:
        try:
            self._dirs, failed = log_dirs(self._session)
        except ClientError:
            return
        self._unreachable = {node: str(error) for node, error in failed.items()}
