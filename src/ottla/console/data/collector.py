"""Reading of one snapshot through the Kafka protocol: brokers, topics, offsets, groups with their lag. Blocking."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from ottla.admin.cluster import QuorumInfo, quorum
from ottla.admin.groups import GroupInfo, describe_groups, list_groups
from ottla.admin.session import Session
from ottla.admin.topics import list_topics
from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import OttlaError
from ottla.client.raw import ClientError
from ottla.console.broker_control import BrokerControl
from ottla.console.data.history import CHANGES_MAX, Lags, Rates, changes
from ottla.console.data.problems import ProblemFinder
from ottla.console.data.snapshot import Broker, Snapshot
from ottla.wire.messages.metadata import MetadataResponse

SESSION_TIMEOUT_S = 3.0
GROUPS_EVERY = 2
"""Groups need more requests than topics: they are read with every second snapshot."""


class Collector:
    """Takes snapshots, each with the rates and changes since the one before. Calls of several threads are serialized:
    a cancelled task of the poller leaves its thread behind, which may still be taking a snapshot."""

    def __init__(self, session: Session, control: BrokerControl | None, clock: Clock | None = None) -> None:
        self._session, self._control = session, control
        self._clock = clock or SystemClock()
        self._rates, self._lags, self._lag_seconds = Rates(), Lags(), Lags()
        self._problems = ProblemFinder(session, self._clock)
        self._last = Snapshot()
        self._lock = threading.Lock()

    def take(self) -> Snapshot:
        """The next snapshot. If the cluster does not respond, the last values with the error."""
        with self._lock:
            return self._take()

    def _take(self) -> Snapshot:
        states = dict(self._control.states()) if self._control else {}
        try:
            taken = self._with_groups(self._read(states))
        except OttlaError as error:
            brokers = tuple(
                replace(each, state=states.get(each.node_id, each.state)) for each in self._last.brokers
            )
            text = f"The cluster does not respond: {error}"
            taken = replace(self._last, brokers=brokers, error=text, rates={})
        taken = replace(taken, version=self._last.version + 1, time_ms=self._clock.now_ms())
        fresh = tuple(changes(self._last, taken)) if self._last.version else ()
        self._last = replace(taken, changes=(fresh[::-1] + self._last.changes)[:CHANGES_MAX])
        return self._last

    def _read(self, states: Mapping[int, str]) -> Snapshot:
        response = self._session.metadata(())
        described = self._quorum()
        controller = None if described is None else described.leader
        brokers = brokers_of(response, states, self._last.brokers, controller)
        topics = tuple(list_topics(self._session, internal=True))
        ends = {
            each.tp: each.end_offset
            for topic in topics
            for each in topic.partitions
            if each.end_offset is not None
        }
        rates = self._rates.update(ends, self._clock.monotonic())
        internal = frozenset(topic.name for topic in topics if topic.internal)
        return replace(
            self._last,
            cluster_id=response.cluster_id,
            brokers=brokers,
            topics=topics,
            rates=rates,
            rate_history=self._rates.record(rates, internal),
            health=self._problems.find(topics, described, {each.node_id for each in brokers if each.listed}),
            error=None,
        )

    def _with_groups(self, taken: Snapshot) -> Snapshot:
        """The snapshot with current groups. A group that is deleted meanwhile, or moves, is left out until the next."""
        if taken.version % GROUPS_EVERY:
            return taken
        groups: list[GroupInfo] = []
        for listing in list_groups(self._session):
            try:
                groups += describe_groups(self._session, [listing.name])
            except ClientError:
                continue
        return replace(
            taken,
            groups=tuple(groups),
            lag_history=self._lags.record({each.name: each.lag for each in groups}),
            lag_seconds_history=self._lag_seconds.record({each.name: each.lag_seconds for each in groups}),
        )

    def _quorum(self) -> QuorumInfo | None:
        """The quorum with its leader, the active controller; None if the cluster does not describe it now."""
        try:
            return quorum(self._session)
        except ClientError:
            return None


def brokers_of(
    response: MetadataResponse, states: Mapping[int, str], before: tuple[Broker, ...], controller: int | None
) -> tuple[Broker, ...]:
    """The listed brokers, and those that were listed before: these are fenced, or in the state of their process.

    A process that was started again is starting until its broker is listed.
    """
    was = {each.node_id: each.state for each in before}
    known = {each.node_id: replace(each, state="fenced", is_controller=False) for each in before}
    listed = {
        each.node_id: Broker(each.node_id, f"{each.host}:{each.port}", each.rack) for each in response.brokers
    }
    found = known | listed
    for node_id, state in states.items():
        if node_id in found and (state != "running" or node_id not in listed):
            unlisted = "fenced" if was.get(node_id) in ("running", "fenced") else "starting"
            found[node_id] = replace(found[node_id], state=unlisted if state == "running" else state)
    if controller in found:
        found[controller] = replace(found[controller], is_controller=True)
    return tuple(found[node_id] for node_id in sorted(found))
