"""The leader's view of one partition in one leader epoch: followers, ISR, high watermark and changes of the ISR.

A follower has the records below the offset that it fetches next: it fetches from its durable end. The leader has those
below its `committable_offset`. The high watermark is the smallest of these ends over the *maximal ISR*, which is the
committed ISR and the replica whose addition is proposed. The rules:

- An addition counts from the moment it is proposed, a removal only when the metadata log contains it. A proposal whose
  result is unknown stays pending; a partition image with a greater partition epoch resolves it, and a rejection by
  the controller does.
- The high watermark does not move while the committed ISR is smaller than `min.insync.replicas` (KIP-966), and it never
  moves back.
- A follower joins the ISR when its end has reached the high watermark and the start of this leader epoch. Before the
  start it could lack committed records that the high watermark of a new leader does not cover yet. Its broker must be
  active and be the one that fetched: the same broker epoch. Its directory must be registered: what it fetched may have
  been lost with a directory that failed since.
- The high watermark also waits for a follower outside the ISR that is caught up and may join. Otherwise such a follower
  would stay behind the high watermark as long as records are appended, and could never join.
- A follower leaves the ISR when it has not been caught up for `replica.lag.time.max.ms`. It is caught up at the time of
  a fetch that reaches the end of the log, or that reaches the end at the time of the fetch before.

Pure: time, offsets and brokers are arguments. Times are seconds of a monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.image import BrokerImage, PartitionImage

UNKNOWN: Final = -1
"""An end offset before the first fetch; a broker epoch that a request does not contain."""

Brokers = Mapping[int, BrokerImage]


class IsrProposal(NamedTuple):
    """A change of the ISR that the leader requests from the controller."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """(broker id, broker epoch); the epoch is -1 before the first fetch of a replica."""


class Follower:
    """What one follower has, as its fetches in this leader epoch show it."""

    __slots__ = ("broker_epoch", "caught_up_at", "end_offset", "fetched_at", "leader_end", "log_start_offset")

    def __init__(self, caught_up_at: float) -> None:
        self.caught_up_at = caught_up_at
        self.end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.broker_epoch: int | None = None
        self.fetched_at = -inf
        self.leader_end = UNKNOWN
        """The greatest end of the leader's log at the time of a fetch."""

    def note_fetch(
        self, broker_epoch: int, offset: int, log_start_offset: int, leader_end: int, now: float
    ) -> None:
        if offset >= leader_end:
            self.caught_up_at = max(self.caught_up_at, now)
        elif offset >= self.leader_end:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.broker_epoch = broker_epoch
        self.fetched_at = now
        self.leader_end = max(self.leader_end, leader_end)

    def is_caught_up(self, leader_end: int, now: float, lag_max: float) -> bool:
        return self.end_offset >= leader_end or now - self.caught_up_at <= lag_max


class LeaderState:
    """The state of one leader epoch. A new leader epoch begins with a new object."""

    __slots__ = (
        "_added",
        "_awaited",
        "_counted",
        "_node_id",
        "_under_min_isr",
        "epoch_start",
        "followers",
        "image",
        "min_insync_replicas",
        "pending",
    )

    def __init__(
        self, node_id: int, image: PartitionImage, epoch_start: int, min_insync_replicas: int, now: float
    ) -> None:
        """`epoch_start` is the end of the log at the time of the election."""
        self._node_id = node_id
        self.epoch_start = epoch_start
        self.min_insync_replicas = min_insync_replicas
        self.image = image
        self.followers: dict[int, Follower] = {}
        self.pending: IsrProposal | None = None
        self._added: int | None = None
        self._awaited: set[int] = set()
        self._set_image(image, now)

    # The metadata

    def update(self, image: PartitionImage, now: float) -> None:
        """Apply a newer image of the same leader epoch; it resolves a pending proposal."""
        if image.partition_epoch > self.image.partition_epoch:
            self.pending = self._added = None
        self._set_image(image, now)

    def _set_image(self, image: PartitionImage, now: float) -> None:
        self.image = image
        self.followers = {
            one: self.followers.get(one) or Follower(now if one in image.isr else -inf)
            for one in image.replicas
            if one != self._node_id
        }
        self._awaited = {one for one in self._awaited if one in self.followers and one not in image.isr}
        self.set_min_insync_replicas(self.min_insync_replicas)
        self._recount()

    def set_min_insync_replicas(self, value: int) -> None:
        """A topic with fewer replicas than the setting could never be written to: the limit is capped."""
        self.min_insync_replicas = value
        self._under_min_isr = len(self.image.isr) < min(value, len(self.image.replicas))

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Every replica that can be in the controller's ISR."""
        isr = frozenset(self.image.isr)
        return isr if self._added is None else isr | {self._added}

    def _recount(self) -> None:
        """Collect the followers that limit the high watermark."""
        counted = self.maximal_isr | self._awaited
        self._counted = [follower for one, follower in self.followers.items() if one in counted]

    # Fetches of followers

    def fetched(
        self,
        replica_id: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        *,
        leader_end: int,
        brokers: Brokers,
        now: float,
        lag_max: float,
    ) -> None:
        """Record that a replica has everything below `offset`.

        Raises NOT_LEADER_OR_FOLLOWER if the replica is not assigned or the request is of an earlier incarnation.
        """
        follower = self.followers.get(replica_id)
        if follower is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        known = brokers.get(replica_id)
        newest = max(UNKNOWN if known is None else known.epoch, self._epoch_of(replica_id))
        if UNKNOWN < broker_epoch < newest:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker epoch {broker_epoch} is stale")
        follower.note_fetch(broker_epoch, offset, log_start_offset, leader_end, now)
        if replica_id not in self.image.isr:
            self._await(replica_id, brokers, now, lag_max)

    def fetched_before(self, replica_id: int, at: float) -> None:
        """A fetch at the time `at` showed that a follower still had all records, as in its fetch before."""
        follower = self.followers.get(replica_id)
        if follower is not None and follower.end_offset >= follower.leader_end:
            follower.caught_up_at = max(follower.caught_up_at, at)
            follower.fetched_at = max(follower.fetched_at, at)

    def _await(self, replica_id: int, brokers: Brokers, now: float, lag_max: float) -> None:
        """Let the high watermark wait for a follower that is caught up and may join the ISR, or no longer."""
        caught_up = now - self.followers[replica_id].caught_up_at <= lag_max
        joins = replica_id not in self.image.isr and caught_up and self._is_eligible(replica_id, brokers)
        if joins != (replica_id in self._awaited):
            self._awaited.symmetric_difference_update({replica_id})
            self._recount()

    def review(self, brokers: Brokers, now: float, lag_max: float) -> bool:
        """Stop waiting for followers that fell behind or whose brokers are not active; whether there were any."""
        awaited = list(self._awaited)
        for replica_id in awaited:
            self._await(replica_id, brokers, now, lag_max)
        return bool(awaited)

    # The high watermark

    def high_watermark(self, committable: int, current: int) -> int:
        """The high watermark, given the leader's committable offset and the current one."""
        if self._under_min_isr:
            return current
        lowest = committable
        for follower in self._counted:
            lowest = min(lowest, follower.end_offset)
        return lowest if lowest > current else current

    def low_watermark(self, log_start_offset: int, brokers: Brokers) -> int:
        """The smallest log start of all replicas whose brokers are not fenced, given the leader's."""
        live = (
            follower.log_start_offset
            for one, follower in self.followers.items()
            if (broker := brokers.get(one)) is not None and not broker.fenced
        )
        return min([log_start_offset, *live])

    # Changes of the ISR

    def _is_eligible(self, replica_id: int, brokers: Brokers) -> bool:
        """Whether a replica may be in the ISR: its broker is active and the one that fetched, its directory works."""
        broker = brokers.get(replica_id)
        fetched_by = self.followers[replica_id].broker_epoch
        if broker is None or not broker.active or fetched_by is None:
            return False
        if not self.image.is_online(replica_id, broker.log_dirs):
            return False
        return fetched_by in (UNKNOWN, broker.epoch)

    def propose_expansion(
        self, replica_id: int, high_watermark: int, brokers: Brokers, own_epoch: int
    ) -> IsrProposal | None:
        """Propose that a follower joins the ISR, if it may; from now on it is in the maximal ISR."""
        follower = self.followers.get(replica_id)
        if self.pending is not None or follower is None or replica_id in self.image.isr:
            return None
        if follower.end_offset < max(high_watermark, self.epoch_start):
            return None
        if not self._is_eligible(replica_id, brokers):
            return None
        self._added = replica_id
        return self._propose(tuple(sorted((*self.image.isr, replica_id))), own_epoch)

    def caught_up_outside(self, leader_end: int) -> list[int]:
        """Followers outside the ISR that have all records of the leader, as their last fetch showed."""
        if len(self.image.isr) == len(self.image.replicas):
            return []
        return [
            one
            for one, follower in self.followers.items()
            if one not in self.image.isr and follower.end_offset >= leader_end
        ]

    def propose_shrink(
        self, leader_end: int, now: float, lag_max: float, own_epoch: int
    ) -> IsrProposal | None:
        """Propose that the followers that lag leave the ISR; until that is committed they count."""
        if self.pending is not None:
            return None
        kept = tuple(
            one
            for one in self.image.isr
            if one == self._node_id
            or ((follower := self.followers.get(one)) and follower.is_caught_up(leader_end, now, lag_max))
        )
        return None if len(kept) == len(self.image.isr) else self._propose(kept, own_epoch)

    def _propose(self, isr: tuple[int, ...], own_epoch: int) -> IsrProposal:
        self.pending = IsrProposal(
            self.image.leader_epoch,
            self.image.partition_epoch,
            tuple((one, own_epoch if one == self._node_id else self._epoch_of(one)) for one in isr),
        )
        self._recount()
        return self.pending

    def _epoch_of(self, replica_id: int) -> int:
        follower = self.followers.get(replica_id)
        if follower is None or follower.broker_epoch is None:
            return UNKNOWN
        return follower.broker_epoch

    def withdraw(self, proposal: IsrProposal) -> bool:
        """The controller has refused a proposal, and will not apply it later; False if it is not pending."""
        if self.pending != proposal:
            return False
        self.pending = self._added = None
        self._recount()
        return True
