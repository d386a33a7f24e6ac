"""The states of a broker between its start and its stop, as a pure state machine.

    NOT_RUNNING -> STARTING -> RECOVERY -> RUNNING -> PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN

    STARTING   not registered yet, or not caught up with the own registration
    RECOVERY   caught up, fenced
    RUNNING    was unfenced; the controller may fence it again
    PENDING_CONTROLLED_SHUTDOWN   waits until its leaderships have moved

At most one request to the controller is in flight. `next_step` returns the request that is due. Heartbeats are sent at
an interval, and at once when there is something new to report: the broker is ready, a log directory has failed, the
metadata shows the broker fenced although it runs, another controller is active, another broker waits for its controlled
shutdown, or the broker is to stop. A registration that the controller does not know any more (STALE_BROKER_EPOCH,
BROKER_ID_NOT_REGISTERED) is repeated with a new incarnation; the broker is then fenced until it has caught up with its
new registration.

Time is given by the caller, in seconds of a monotonic clock.
"""

from __future__ import annotations

import uuid
from enum import Enum
from typing import Final

from msgspec import Struct

from ottla.base.errors import ErrorCode
from ottla.config.broker import BrokerConfig

NOT_REGISTERED: Final = -1
_NOT_KNOWN: Final = frozenset({ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED})
_RETRY_S: Final = 0.1
_SHUTDOWN_POLL_S: Final = 0.05
_HEARTBEATS_PER_SESSION: Final = 3
_REQUEST_TIMEOUT_S: Final = 1.5


class BrokerState(Enum):
    """The states and names of Kafka's broker lifecycle."""

    NOT_RUNNING = "not running"
    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    PENDING_CONTROLLED_SHUTDOWN = "pending controlled shutdown"
    SHUTTING_DOWN = "shutting down"


class Step(Enum):
    """The request that is due."""

    REGISTER = "register"
    HEARTBEAT = "heartbeat"


class LifecycleSettings(Struct, frozen=True):
    """Intervals and timeouts, in seconds."""

    heartbeat_interval_s: float = 1.0
    registration_timeout_s: float = 60.0
    """Time for a registration; then the start fails."""
    request_timeout_s: float = _REQUEST_TIMEOUT_S
    """Time in which a controller has to respond."""
    shutdown_timeout_s: float = 30.0
    """Time for leaderships to move while a controller responds."""

    @staticmethod
    def from_config(config: BrokerConfig) -> LifecycleSettings:
        """A session has room for several heartbeats, so that a single late one does not fence the broker."""
        session_s = config.int("broker.session.timeout.ms") / 1000
        return LifecycleSettings(
            heartbeat_interval_s=min(
                config.int("broker.heartbeat.interval.ms") / 1000, session_s / _HEARTBEATS_PER_SESSION
            ),
            registration_timeout_s=config.int("initial.broker.registration.timeout.ms") / 1000,
            request_timeout_s=min(_REQUEST_TIMEOUT_S, session_s / 2),
        )


class BrokerStateMachine:
    """The state of one broker process."""

    def __init__(self, settings: LifecycleSettings) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NOT_REGISTERED
        self.fenced = True
        """Whether the newest applied image shows this broker fenced."""
        self._settings = settings
        self._registered = False
        self._ready = False
        self._caught_up = False
        self._in_flight = False
        self._due: float | None = None
        self._at_once = False
        """Send the next heartbeat as soon as the request in flight is complete."""
        self._registration_deadline: float | None = None
        self._shutdown_deadline = 0.0
        self._offline_dirs: set[uuid.UUID] = set()
        """Failed log directories, and whether a controller knows of them."""

    # Requests

    @property
    def want_fence(self) -> bool:
        """A broker is unfenced only with metadata that contains its registration."""
        return not (self._ready and self._caught_up)

    @property
    def want_shut_down(self) -> bool:
        return self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN

    @property
    def offline_dirs(self) -> list[uuid.UUID]:
        return sorted(self._offline_dirs)

    def next_step(self, now: float) -> Step | None:
        """The request to send now, which is in flight from then on."""
        if self._in_flight or self._due is None or now < self._due:
            return None
        self._in_flight, self._due, self._at_once = True, None, False
        return Step.HEARTBEAT if self._registered else Step.REGISTER

    def next_due(self) -> float | None:
        """When `next_step` or `expired` is to be called; None while a request without a deadline is in flight."""
        times = [] if self._in_flight or self._due is None else [self._due]
        if self._registration_deadline is not None:
            times.append(self._registration_deadline)
        return min(times, default=None)

    def registration_expired(self, now: float) -> bool:
        """Whether the first registration has taken too long."""
        return self._registration_deadline is not None and now >= self._registration_deadline

    # Events

    def start(self, now: float) -> None:
        self.state = BrokerState.STARTING
        self._due = now
        self._registration_deadline = now + self._settings.registration_timeout_s

    def registered(self, now: float, broker_epoch: int) -> None:
        """The controller has registered this broker."""
        self._in_flight = False
        self._registered = True
        self._registration_deadline = None
        self.broker_epoch = broker_epoch
        self._caught_up = False
        self._schedule(now, self._settings.heartbeat_interval_s)

    def registration_failed(self, now: float) -> None:
        """No response, or a refusal, such as DUPLICATE_BROKER_REGISTRATION while the old session is valid."""
        self._in_flight = self._at_once = False
        self._schedule(now, _RETRY_S)

    def caught_up(self, now: float, broker_epoch: int) -> None:
        """This node has applied the metadata up to the registration with this epoch."""
        if broker_epoch == self.broker_epoch and not self._caught_up:
            self._caught_up = True
            self._heartbeat_at_once(now)

    def ready(self, now: float) -> None:
        """This node can serve clients."""
        self._ready = True
        self._heartbeat_at_once(now)

    def image_applied(self, now: float, *, fenced: bool) -> None:
        """The registration of this broker, with the current epoch, in the newest image."""
        was_fenced, self.fenced = self.fenced, fenced
        if fenced and not was_fenced and not self.want_fence and not self.want_shut_down:
            self._heartbeat_at_once(now)

    def report_offset(self, now: float) -> None:
        """A new controller is active, or the controller waits until this broker has applied the metadata."""
        self._heartbeat_at_once(now)

    def directory_failed(self, now: float, directory_id: uuid.UUID) -> None:
        if directory_id not in self._offline_dirs:
            self._offline_dirs.add(directory_id)
            self._heartbeat_at_once(now)

    def heartbeat_succeeded(
        self,
        now: float,
        *,
        is_caught_up: bool,
        is_fenced: bool,
        should_shut_down: bool,
    ) -> None:
        self._in_flight = False
        if self.state is BrokerState.STARTING and is_caught_up:
            self.state = BrokerState.RECOVERY
        if self.state is BrokerState.RECOVERY and not is_fenced:
            self.state = BrokerState.RUNNING
        delay_s = self._settings.heartbeat_interval_s
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if should_shut_down or now >= self._shutdown_deadline:
                self.shut_down()
                return
            delay_s = _SHUTDOWN_POLL_S
        elif is_fenced and not self.want_fence:
            delay_s = min(delay_s, _RETRY_S)
        self._schedule(now, delay_s)

    def heartbeat_failed(self, now: float, error: ErrorCode | None) -> None:
        """A heartbeat was refused, or no controller responded (None)."""
        self._in_flight = self._at_once = False
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.shut_down()
            return
        if error in _NOT_KNOWN:
            self._registered = False
            self._caught_up = False
            self.state = BrokerState.STARTING
        self._schedule(now, _RETRY_S)

    def begin_controlled_shutdown(self, now: float) -> None:
        """Move leaderships to other brokers first; a broker that never ran stops at once."""
        if self.state is BrokerState.RUNNING:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._shutdown_deadline = now + self._settings.shutdown_timeout_s
            self._heartbeat_at_once(now)
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.shut_down()

    def shut_down(self) -> None:
        self.state = BrokerState.SHUTTING_DOWN
        self._due = None
        self._registration_deadline = None

    # The time of the next request

    def _schedule(self, now: float, delay_s: float) -> None:
        if self.state is not BrokerState.SHUTTING_DOWN:
            self._due = now if self._at_once else now + delay_s

    def _heartbeat_at_once(self, now: float) -> None:
        if self._in_flight:
            self._at_once = True
        elif self._registered and self.state is not BrokerState.SHUTTING_DOWN:
            self._due = now
