"""A quorum in memory that implements the port: commits, leadership and failures when the test wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from ottla.base.ids import ZERO_UUID
from ottla.quorum.quorum import (
    CommitListener,
    CommittedBatch,
    CommittedSnapshot,
    LeadershipListener,
    NotLeader,
    QuorumStatus,
    ReplicaStatus,
)


class FakeQuorum:
    """Holds appends until `commit`; with `auto` it commits them in the next turn of the event loop."""

    kraft_version = 1
    silence_ms = 0.0
    voters: tuple[int, ...] = ()

    def __init__(self, *, auto: bool = False) -> None:
        self.auto = auto
        self.epoch = 0
        self.leads = False
        self.log: list[CommittedBatch] = []
        self.appends: list[CommittedBatch] = []
        self.log_end_offset = 0
        self.snapshot_due = False
        self.snapshots: list[tuple[int, int, list[bytes]]] = []

    def start(self, commits: CommitListener, leadership: LeadershipListener) -> None:
        """Deliver the log and lead."""
        self.commits, self.leadership = commits, leadership
        if self.log:
            commits.committed(self.log)
        self.elect()

    def elect(self) -> None:
        """Lead the next epoch: its first batch is a control batch."""
        self.epoch += 1
        self.leads = True
        self._append([])
        self.log_end_offset += 1
        self.appends[-1] = self.appends[-1]._replace(last_offset=self.log_end_offset - 1)
        self.commit()
        self.leadership.leading(self.epoch)

    def resign(self) -> None:
        """Another node leads; appends that are not committed are lost."""
        self.leads = False
        self.appends.clear()
        self.log_end_offset = self.log[-1].last_offset + 1
        self.leadership.resigned(self.epoch)

    def fail(self, error: BaseException) -> None:
        """The local log fails."""
        self.leadership.failed(error)
        self.resign()

    def append(self, epoch: int, values: Sequence[bytes]) -> int:
        if not self.leads or epoch != self.epoch:
            raise NotLeader(f"epoch {epoch}")
        if self.auto and not self.appends:
            asyncio.get_running_loop().call_soon(self.commit)
        self._append(list(values))
        return self.log_end_offset - 1

    def _append(self, values: list[bytes]) -> None:
        self.log_end_offset += len(values)
        self.appends.append(CommittedBatch(self.log_end_offset - 1, self.epoch, 0, values))

    def commit(self, count: int | None = None) -> None:
        """Commit the oldest `count` appends, or all."""
        batches, self.appends = self.appends[:count], self.appends[len(self.appends[:count]) :]
        if batches:
            self.log += batches
            self.commits.committed(batches)

    def follow(self, *batches: list[bytes]) -> None:
        """Commit batches that another leader appended."""
        for values in batches:
            self._append(values)
        self.commit()

    def install(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        """A follower receives a snapshot."""
        self.log_end_offset = last_offset + 1
        self.commits.load_snapshot(CommittedSnapshot(last_offset, epoch, values))

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None:
        self.snapshot_due = False
        self.snapshots.append((last_offset, epoch, list(values)))

    def describe(self) -> QuorumStatus:
        voters = tuple(ReplicaStatus(each, ZERO_UUID, -1, -1, -1, ()) for each in self.voters)
        return QuorumStatus(1, self.epoch, self.log_end_offset, voters)
