"""What follows from successive snapshots: rates, their history, and changes in sentences. Pure.

A rate is computed from offsets, so it is labelled offsets/s: markers of transactions count, and compaction does not
reduce it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping

from ottla.admin.offset_rates import OffsetRates
from ottla.base.ids import TopicPartition
from ottla.console.data.snapshot import Change, Snapshot

SAMPLES_MAX = 120
CHANGES_MAX = 60
ALL = ""
"""The key of the sum over all topics that are not internal."""


class Rates(OffsetRates):
    """The rates of partitions, and the history of topics."""

    def __init__(self) -> None:
        super().__init__()
        self._history: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=SAMPLES_MAX))

    def record(
        self, rates: Mapping[TopicPartition, float], internal: frozenset[str]
    ) -> dict[str, list[float]]:
        """Append the sum of each topic to its history; return all histories."""
        sums: dict[str, float] = defaultdict(float, {ALL: 0.0})
        for tp, rate in rates.items():
            sums[tp.topic] += rate
            if tp.topic not in internal:
                sums[ALL] += rate
        for topic, rate in sums.items():
            self._history[topic].append(rate)
        return {topic: list(history) for topic, history in self._history.items()}


class Lags:
    """The history of the lag of groups."""

    def __init__(self) -> None:
        self._history: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=SAMPLES_MAX))

    def record(self, lags: Mapping[str, float | None]) -> dict[str, list[float]]:
        """Append a sample for each group that has a known lag; return all histories."""
        for name in self._history.keys() - lags.keys():
            del self._history[name]
        for name, lag in lags.items():
            if lag is not None:
                self._history[name].append(lag)
        return {name: list(history) for name, history in self._history.items()}


def changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    """One sentence for each difference to report while a failover is watched."""
    states = {each.node_id: each.state for each in before.brokers}
    for broker in after.brokers:
        if broker.node_id in states and states[broker.node_id] != broker.state:
            yield Change(after.time_ms, "broker", f"Broker {broker.node_id} is {broker.state}")
    for node_id in states.keys() - {each.node_id for each in after.brokers}:
        yield Change(after.time_ms, "broker", f"Broker {node_id} is not listed any more")
    old_controller = next((each.node_id for each in before.brokers if each.is_controller), None)
    new_controller = next((each.node_id for each in after.brokers if each.is_controller), None)
    if None not in (old_controller, new_controller) and old_controller != new_controller:
        yield Change(
            after.time_ms, "broker", f"Active controller: broker {old_controller} → {new_controller}"
        )
    yield from _partition_changes(before, after)


def _partition_changes(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    known = {each.tp: each for each in before.partitions}
    for one in after.partitions:
        old = known.pop(one.tp, None)
        name = f"{one.topic}-{one.partition}"
        if old is None:
            if before.version and one.partition == 0:
                yield Change(after.time_ms, "topic", f"New topic {one.topic}")
        elif old.leader != one.leader:
            leader = str(one.leader) if one.has_leader else "none"
            text = f"{name}: leader {old.leader} → {leader}, epoch {one.leader_epoch}"
            yield Change(after.time_ms, "leader", text)
        elif set(old.isr) != set(one.isr):
            yield Change(after.time_ms, "isr", f"{name}: in sync {_ids(old.isr)} → {_ids(one.isr)}")
    for tp in known:
        if tp.partition == 0:
            yield Change(after.time_ms, "topic", f"Topic {tp.topic} was deleted")


def _ids(ids: tuple[int, ...]) -> str:
    return " ".join(map(str, sorted(ids))) or "none"
