"""Sessions of brokers: heartbeats, their timeout, and the states of a broker up to its controlled shutdown.

A session is the knowledge of the active controller that one incarnation of a broker (its broker epoch) is running:

- `start`: a new active controller has heard of no broker yet. Each unfenced broker gets a deadline.
- `heartbeat` renews the deadline. It is the only confirmation of a session.
- A broker whose deadline has passed is `expired`; the controller fences it.
- `end`: the broker is known to be gone, or it registered again. Nothing is expected of it any more.

`next_state` is the table of transitions of Kafka's controller: fenced -> unfenced -> controlled shutdown -> shut down.
A broker may shut down when it leads no partition and every other active broker has applied the metadata in which it
does not.

Pure: times are arguments, in seconds of a monotonic clock. A controller that could not run for a while calls
`extend`, because it could not receive heartbeats meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

import msgspec

from ottla.metadata.image import BrokerImage, MetadataImage
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

LEASE_SHARE: Final = 0.7
"""The share of the session timeout for which a broker relies on an acknowledged heartbeat (`coordination.lease`)."""
_GRANTED_SHARE: Final = 0.8
"""The share for which a new controller assumes that it does: more than the lease, because clocks differ."""
_FIRST_HEARTBEAT_SHARE: Final = 1 / 3
"""What brokers that run have at least for their first heartbeat to a new controller."""
_NO_OFFSET: Final = -1


class BrokerState(Enum):
    """The state of a broker in the view of the active controller."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shut down"


class Session(msgspec.Struct):
    """The session of one broker epoch."""

    broker_epoch: int
    deadline: float
    contact: float | None = None
    """The time of the last heartbeat; None if this controller has received none."""
    metadata_offset: int = _NO_OFFSET
    """The offset that the broker has applied, by its last heartbeat."""
    shutdown_offset: int | None = None
    """The offset at which a controlled shutdown took the leaderships away."""


class Sessions:
    """The sessions of all brokers in one leadership of the controller."""

    def __init__(self, timeout: float, takeover_timeout: float) -> None:
        """`takeover_timeout` is the silence after which the same directories and listeners may register again."""
        self._timeout = timeout
        self._takeover_timeout = takeover_timeout
        self._sessions: dict[int, Session] = {}

    def start(self, brokers: Iterable[BrokerImage], now: float, *, elapsed: float = 0.0) -> None:
        """Begin a leadership: no broker is confirmed, unfenced brokers have some time to send a heartbeat.

        Brokers send a heartbeat at once, but a broker that does not may be a coordinator with a lease from its last
        heartbeat to the former controller: it is not fenced before that lease has ended. `elapsed` is the part of the
        timeout in which the former controller acknowledged no heartbeat (`confirmation`).
        """
        shortest = self._timeout * _FIRST_HEARTBEAT_SHARE
        deadline = now + max(self._timeout * _GRANTED_SHARE - elapsed, shortest)
        self._sessions = {
            each.broker_id: Session(each.epoch, deadline) for each in brokers if not each.fenced
        }

    def stop(self) -> None:
        """End the leadership."""
        self._sessions = {}

    def heartbeat(self, broker_id: int, broker_epoch: int, now: float) -> Session:
        """Renew the session of a registered broker."""
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch:
            session = self._sessions[broker_id] = Session(broker_epoch, 0.0)
        session.contact = now
        session.deadline = now + self._timeout
        return session

    def end(self, broker_id: int) -> None:
        """Forget the session of a broker."""
        self._sessions.pop(broker_id, None)

    def extend(self, seconds: float) -> None:
        """Postpone every deadline by a time in which no heartbeat could be received."""
        for session in self._sessions.values():
            session.deadline += seconds

    def is_alive(self, broker_id: int, broker_epoch: int, now: float, *, is_same_place: bool) -> bool:
        """Whether another process must not register as this broker, because the registered one is running.

        If the new process registers the same directories and listeners (`is_same_place`), the old one has released
        both, so a short silence is enough. Otherwise the session must have ended.
        """
        session = self._sessions.get(broker_id)
        if session is None or session.broker_epoch != broker_epoch or session.contact is None:
            return False
        limit = self._takeover_timeout if is_same_place else self._timeout
        return now < session.contact + limit

    def expired(self, image: MetadataImage, now: float) -> list[int]:
        """Unfenced brokers whose session has timed out."""
        return [
            broker_id
            for broker_id, session in self._sessions.items()
            if session.deadline <= now and _is_unfenced(image, broker_id, session.broker_epoch)
        ]

    def next_deadline(self, image: MetadataImage) -> float | None:
        """The time at which the next unfenced broker times out; None if there is none."""
        deadlines = [
            session.deadline
            for broker_id, session in self._sessions.items()
            if _is_unfenced(image, broker_id, session.broker_epoch)
        ]
        return min(deadlines, default=None)

    def have_applied(self, image: MetadataImage, offset: int) -> bool:
        """Whether every active broker has reported that it applied `offset`."""
        return all(
            broker_id in self._sessions and self._sessions[broker_id].metadata_offset >= offset
            for broker_id, broker in image.brokers.items()
            if broker.active
        )


def _is_unfenced(image: MetadataImage, broker_id: int, broker_epoch: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and not broker.fenced and broker.epoch == broker_epoch


def current_state(broker: BrokerImage, session: Session) -> BrokerState:
    """The state of a broker before its heartbeat is processed."""
    if broker.fenced:
        return BrokerState.FENCED
    return BrokerState.UNFENCED if session.shutdown_offset is None else BrokerState.CONTROLLED_SHUTDOWN


def next_state(
    current: BrokerState,
    request: BrokerHeartbeatRequest,
    *,
    may_be_unfenced: bool,
    leads: bool,
    have_others_applied: Callable[[], bool],
) -> BrokerState:
    """The state of a broker after a heartbeat."""
    if current is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        return BrokerState.UNFENCED if may_be_unfenced and not request.want_fence else BrokerState.FENCED
    if current is BrokerState.UNFENCED:
        if request.want_shut_down:
            return (
                BrokerState.CONTROLLED_SHUTDOWN
                if leads and not request.want_fence
                else BrokerState.SHUTDOWN_NOW
            )
        return BrokerState.FENCED if request.want_fence else BrokerState.UNFENCED
    if leads or not have_others_applied():
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.SHUTDOWN_NOW
