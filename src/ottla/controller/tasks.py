"""Periodic work of the active controller: session timeouts, lost brokers, elections, expired tokens.

The work runs while this node leads the quorum (`start` to `stop`) and never before or after. Each piece of work is one
decision; if it is refused because the node has lost leadership, nothing happens.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from ottla.base.errors import ErrorCode
from ottla.base.timer import TimerHandle
from ottla.controller.brokers.heartbeats import decide_fence
from ottla.controller.brokers.liveness import Liveness
from ottla.controller.controller import Controller
from ottla.controller.decision import Decision, SplittableDecision
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.controller.partitions.elections import decide_balance, decide_unclean
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage

_log = structlog.get_logger(__name__)

_LATE_S: Final = 0.3
"""A timer that is later than this shows that the event loop could not run: heartbeats may be waiting in sockets."""


class Timers(Protocol):
    """The clock and the timers of the event loop."""

    def time(self) -> float: ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> TimerHandle: ...

    def call_soon(self, callback: Callable[[], None], /) -> object: ...


class Submit(Protocol):
    def __call__(
        self,
        decide: Callable[[MetadataImage], Decision[None]],
        respond: Callable[[None], None],
        refuse: Callable[[ErrorCode, str | None], None],
    ) -> None: ...


class ControllerTasks:
    """The periodic work of one controller. `liveness` is its watch of the brokers."""

    def __init__(
        self, controller: Controller, timers: Callable[[], Timers], now_ms: Callable[[], int]
    ) -> None:
        """`timers` returns the running event loop, `now_ms` the time of day."""
        config = controller.config
        self._controller = controller
        self._timers = timers
        self._now_ms = now_ms
        self._token_interval = config.long("delegation.token.expiry.check.interval.ms") / 1000
        self._submit: Submit | None = None
        self._session_timeout = config.int("broker.session.timeout.ms") / 1000
        self._balances = config.bool("auto.leader.rebalance.enable")
        self._balance_interval = float(config.long("leader.imbalance.check.interval.seconds"))
        self._unclean_interval = config.long("unclean.leader.election.interval.ms") / 1000
        self._handles: dict[str, TimerHandle] = {}
        self._due = 0.0
        self.liveness = Liveness(
            controller.node_id,
            str(config.value("inter.broker.listener.name") or ""),
            self.brokers_lost,
            lambda callback: timers().call_soon(callback),
        )
        controller.on_change = self._changed

    def start(self, submit: Submit, elapsed: float) -> None:
        """This node leads: every unfenced broker has one session timeout, and is watched from now on.

        `elapsed` is the part of the timeout that has passed (`Sessions.start`).
        """
        self._submit = submit
        controller, timers = self._controller, self._timers()
        controller.sessions.start(controller.image.brokers.values(), timers.time(), elapsed=elapsed)
        self._schedule_sessions()
        if self._balances:
            self._schedule("balance", self._balance_interval, self._balance)
        self._schedule("unclean", self._unclean_interval, self._elect_uncleanly)
        if controller.tokens.enabled:
            self._schedule("tokens", self._token_interval, self._remove_tokens)
        self.liveness.activate(controller.image)

    def stop(self) -> None:
        """This node does not lead any more."""
        self._submit = None
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()
        self._controller.sessions.stop()
        self.liveness.deactivate()

    def _changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.changed_brokers:
            self.liveness.follow(sorted(delta.changed_brokers), image)

    def _schedule(self, name: str, delay: float, callback: Callable[[], None]) -> None:
        self._handles[name] = self._timers().call_later(delay, callback)

    # Brokers

    def brokers_lost(self, brokers: list[int]) -> None:
        """There is evidence that brokers have ended: their sessions end and they are fenced, in one batch."""
        for broker_id in brokers:
            self._controller.sessions.end(broker_id)
        self._fence(brokers, "connection lost")

    def _fence(self, brokers: list[int], reason: str) -> None:
        registered = self._controller.image.brokers
        unfenced = [each for each in brokers if each in registered and not registered[each].fenced]
        if unfenced and self._submit is not None:
            _log.info("fencing brokers", brokers=unfenced, reason=reason)
            self._submit(lambda _: decide_fence(self._controller.view(), unfenced), _ignore, _ignore_refusal)

    def _schedule_sessions(self) -> None:
        sessions, now = self._controller.sessions, self._timers().time()
        deadline = sessions.next_deadline(self._controller.image)
        delay = self._session_timeout / 2
        if deadline is not None:
            delay = min(delay, max(0.0, deadline - now))
        self._due = now + delay
        self._schedule("sessions", delay, self._check_sessions)

    def _check_sessions(self) -> None:
        controller, now = self._controller, self._timers().time()
        if now - self._due > _LATE_S:
            controller.sessions.extend(now - self._due)
        expired = controller.sessions.expired(controller.image, now)
        for broker_id in expired:
            controller.sessions.end(broker_id)
        self._fence(expired, "session timeout")
        self._schedule_sessions()

    # Elections

    def _balance(self) -> None:
        has_more = bool(self._controller.index.imbalanced) and self._elect(decide_balance)
        self._schedule("balance", 0.0 if has_more else self._balance_interval, self._balance)

    def _elect_uncleanly(self) -> None:
        has_more = bool(self._controller.index.leaderless) and self._elect(decide_unclean)
        self._schedule("unclean", 0.0 if has_more else self._unclean_interval, self._elect_uncleanly)

    # Delegation tokens

    def _remove_tokens(self) -> None:
        sweep = self._controller.tokens.decide_sweep
        now_ms = self._now_ms()
        has_more = self._elect(lambda view: sweep(view.image, now_ms))
        self._schedule("tokens", 0.0 if has_more else self._token_interval, self._remove_tokens)

    def _elect(self, decide: Callable[[ClusterView], Decision[bool]]) -> bool:
        """Make a periodic decision; whether there may be more of them to make."""
        has_more = False

        def decided(_: MetadataImage) -> Decision[None]:
            nonlocal has_more
            records, has_more = decide(self._controller.view())
            return SplittableDecision(records, None)

        if self._submit is not None:
            self._submit(decided, _ignore, _ignore_refusal)
        return has_more


def _ignore(response: None) -> None:
    """No client waits for the response."""


def _ignore_refusal(code: ErrorCode, message: str | None) -> None:
    """The node does not lead any more; the next controller does the work."""
