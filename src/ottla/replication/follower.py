"""The follower's side of one partition in one leader epoch, without input and output.

A follower copies the leader's log: it fetches from the end of its own log and appends what it gets, unchanged.

    FETCHING    the position is sent to the leader with the next fetch.
    TRUNCATING  the log is being truncated or restarted, or the offsets of the leader are being looked up.
    DELAYED     a fetch or an append failed; after a back-off the follower fetches again.
    STOPPED     the leader has a newer epoch or the log is offline: the follower waits for the metadata.

Rules:

- The fetch offset is the synced end of the log (`committable_offset`), because the leader counts everything below it
  toward the high watermark. While records are staged or being written, there is no position.
- A step belongs to one leader and leader epoch, and to the position that was fetched. A response to a fetch of another
  term or position has no effect.
- The leader reports where the logs diverge (KIP-595): the greatest epoch at or below the last epoch of this log that it
  knows, and the end offset of that epoch. The follower truncates to the smaller of that end and its own end of that
  epoch, then fetches again, until the leader agrees. All records that it removes are unknown to the leader.
- A follower without a common offset with the leader, whose log ends below the start of the leader's log, removes all
  its records and continues at that start.
- The high watermark is the leader's, limited to the synced end of this log. The log start follows the leader's.
- A leader that has not applied the newest metadata refuses fetches for a short time. The back-off begins short and
  doubles up to `replica.fetch.backoff.ms`.

A new leader epoch begins with a new object.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.base.errors import ErrorCode, invariant

UNKNOWN: Final = -1
FIRST_BACKOFF_S: Final = 0.02


class FollowedLog(Protocol):
    """The properties of a log that decide what a follower does next."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def committable_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def latest_epoch(self) -> int: ...

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]: ...


class Phase(Enum):
    FETCHING = "fetching"
    TRUNCATING = "truncating"
    DELAYED = "delayed"
    STOPPED = "stopped"


class FetchPosition(NamedTuple):
    """What a fetch requests, and the term in which it does."""

    leader_id: int
    leader_epoch: int
    offset: int
    last_epoch: int
    """The leader epoch of the last batch of this log, -1 if it has none."""
    log_start_offset: int


class Fetched(NamedTuple):
    """The response of the leader for one partition, without its records."""

    error_code: int
    high_watermark: int
    log_start_offset: int
    diverging: tuple[int, int] | None = None
    """(epoch, end offset) at which the logs diverge."""


class Action(Enum):
    NONE = "none"
    APPEND = "append"
    """Append the records of the response, if it has any, then take over the offsets of the leader."""
    TRUNCATE = "truncate"
    """Remove the records at and above `offset`, then call `truncated`."""
    RESTART = "restart"
    """Remove all records, so that the log continues at `offset`, then call `truncated`."""
    LOOK_UP = "look up"
    """Look up the start and end offsets of the leader's log, then call `found_offsets`."""
    DELAY = "delay"
    """Wait for `backoff_s`, then call `resume`."""


class Step(NamedTuple):
    action: Action
    offset: int = UNKNOWN


_NOTHING: Final = Step(Action.NONE)
_APPEND: Final = Step(Action.APPEND)


class FollowerState:
    """The state of one leader epoch."""

    __slots__ = ("_failures", "_leader_log_start", "_leader_watermark", "leader_epoch", "leader_id", "phase")

    def __init__(self, leader_id: int, leader_epoch: int) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.phase = Phase.FETCHING
        self._leader_watermark = UNKNOWN
        self._leader_log_start = UNKNOWN
        self._failures = 0

    def position(self, log: FollowedLog) -> FetchPosition | None:
        """What to fetch next; None if nothing can be fetched now."""
        offset = log.committable_offset
        if self.phase is not Phase.FETCHING or offset != log.log_end_offset:
            return None
        return FetchPosition(
            self.leader_id, self.leader_epoch, offset, log.latest_epoch, log.log_start_offset
        )

    def is_current(self, position: FetchPosition, log: FollowedLog) -> bool:
        """Whether a response to the fetch of `position` may change the log.

        The end of the log and the epoch of its last batch must be the same: the log may have been truncated since.
        """
        return (
            self.phase is Phase.FETCHING
            and position.leader_epoch == self.leader_epoch
            and position.leader_id == self.leader_id
            and position.offset == log.committable_offset == log.log_end_offset
            and position.last_epoch == log.latest_epoch
        )

    def fetched(self, position: FetchPosition, response: Fetched, log: FollowedLog) -> Step:
        """Return what to do with the response to the fetch of `position`."""
        if not self.is_current(position, log):
            return _NOTHING
        if response.error_code:
            return self._refused(response.error_code)
        self._failures = 0
        if response.diverging is not None:
            # Offsets of a leader whose log differs are not taken over.
            return self._truncate(_truncation_offset(*response.diverging, log), log)
        self._leader_watermark = response.high_watermark
        self._leader_log_start = response.log_start_offset
        return _APPEND

    def _refused(self, error_code: int) -> Step:
        if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.phase = Phase.TRUNCATING
            return Step(Action.LOOK_UP)
        if error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self.phase = Phase.STOPPED
            return _NOTHING
        return self.failed()

    def found_offsets(self, start_offset: int, end_offset: int, log: FollowedLog) -> Step:
        """The leader's log contains [start_offset, end_offset); the fetch offset was outside of it."""
        invariant(self.phase is Phase.TRUNCATING, "the offsets of the leader were not being looked up")
        if end_offset < log.log_end_offset:
            # Unclean election: the leader lacks records of this log.
            return self._truncate(end_offset, log)
        if start_offset > log.log_end_offset:
            return Step(Action.RESTART, start_offset)
        self.phase = Phase.FETCHING
        return _NOTHING

    def _truncate(self, offset: int, log: FollowedLog) -> Step:
        if offset >= log.log_end_offset:
            return self.failed()  # the leader contradicts itself
        self.phase = Phase.TRUNCATING
        return Step(Action.RESTART if offset < log.log_start_offset else Action.TRUNCATE, offset)

    def begins_below(self, base_offset: int, last_offset: int, log: FollowedLog) -> Step:
        """Return what to do with a first batch that begins below the end of this log.

        The log start of the leader may be within a batch: a log without records is restarted at its base offset.
        """
        if log.log_start_offset == log.log_end_offset and base_offset < log.log_end_offset <= last_offset:
            self.phase = Phase.TRUNCATING
            return Step(Action.RESTART, base_offset)
        return self.failed()

    def truncated(self) -> None:
        """The truncation or the restart is durable."""
        if self.phase is Phase.TRUNCATING:
            self.phase = Phase.FETCHING

    def failed(self) -> Step:
        """A request, a response or an append failed."""
        if self.phase is Phase.STOPPED:
            return _NOTHING
        self.phase = Phase.DELAYED
        self._failures += 1
        return Step(Action.DELAY)

    def backoff_s(self, longest_s: float) -> float:
        """How long to wait after the last failure."""
        return min(longest_s, FIRST_BACKOFF_S * 2.0 ** (min(self._failures, 16) - 1))

    def resume(self) -> None:
        """The back-off has passed."""
        if self.phase is Phase.DELAYED:
            self.phase = Phase.FETCHING

    def stop(self) -> None:
        """Nothing more happens in this term: the log is offline, or another term begins."""
        self.phase = Phase.STOPPED

    def is_behind(self, log: FollowedLog) -> bool:
        """Whether the leader has committed records that this log lacks, or may have."""
        return self._leader_watermark < 0 or log.committable_offset < self._leader_watermark

    def high_watermark(self, log: FollowedLog) -> int:
        """The high watermark of this replica: the leader's, as far as this log is synced; never lower than before."""
        return max(log.high_watermark, min(self._leader_watermark, log.committable_offset))

    def log_start(self, log: FollowedLog) -> int:
        """The log start of this replica: the leader's, but not above the high watermark."""
        return min(self._leader_log_start, log.high_watermark)


def _truncation_offset(epoch: int, end_offset: int, log: FollowedLog) -> int:
    """The offset from which on the leader does not have the records of this log.

    `epoch` and `end_offset` are the leader's: its greatest epoch at or below the last epoch of this log.
    """
    own_epoch, own_end = log.end_offset_for_epoch(epoch)
    if own_end < 0:
        # The last epoch of this log is not above the leader's: only the offsets differ.
        return min(end_offset, log.log_end_offset)
    if own_epoch == epoch:
        return min(own_end, end_offset)
    return own_end
