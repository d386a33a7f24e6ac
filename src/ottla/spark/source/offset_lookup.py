"""Lookup of the partitions of a read, and of the offset that an `OffsetSpec` means in each of them.

Runs on the driver's side only. Reads the clock for durations back from now. Waits and retries if the cluster reports a
latest offset below a known one (a new leader that is not up to date), or does not report a known partition (a broker
whose metadata is not up to date). Partitions that are deleted during a lookup are omitted from the result.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.raw import Cluster, UnknownTopic
from ottla.client.raw.retry import Sleep, sleep
from ottla.spark.source.offsets import (
    EARLIEST,
    LATEST,
    AtTime,
    AtTimes,
    Committed,
    Earliest,
    Latest,
    Offsets,
    OffsetSpec,
    RecordsBack,
    Specific,
    TimeBack,
    to_json,
)
from ottla.spark.source.options import SourceOptions

_NO_MATCH: Final = -1
_MISSING_TRIES: Final = 20
_MISSING_PAUSE_S: Final = 0.15
"""After three seconds in total a missing partition is regarded as deleted."""


class OffsetLookup:
    """The partitions and offsets of one read; each call looks them up again."""

    def __init__(
        self, cluster: Cluster, options: SourceOptions, clock: Clock | None = None, wait: Sleep = sleep
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._clock = clock or SystemClock()
        self._wait = wait

    def partitions(self, known: Collection[TopicPartition] = ()) -> list[TopicPartition]:
        """All selected partitions that exist, sorted; retries if a `known` one is missing."""
        found = self._partitions()
        for _ in range(_MISSING_TRIES):
            if set(known) <= set(found):
                break
            self._wait(_MISSING_PAUSE_S)
            found = self._partitions()
        return found

    def _partitions(self) -> list[TopicPartition]:
        topics = self._options.topics
        if topics.assigned:
            wanted = {partition.topic for partition in topics.assigned}
            found = self._existing(wanted)
            return sorted(partition for partition in topics.assigned if partition in found)
        if topics.names:
            return sorted(self._existing(topics.names))
        pattern = re.compile(topics.pattern or "")
        return sorted(
            TopicPartition(name, number)
            for name, info in self._cluster.topics(None).items()
            if not info.internal and pattern.search(name)
            for number in info.partitions
        )

    def required(self) -> list[TopicPartition]:
        """All selected partitions; topics and partitions that are given by name must exist."""
        topics, found = self._options.topics, self.partitions()
        missing = sorted({*topics.names} - {partition.topic for partition in found})
        missing += [str(partition) for partition in sorted(set(topics.assigned) - set(found))]
        if missing:
            raise LocalError(f"{', '.join(missing)}: the topic or partition does not exist in the cluster")
        return found

    def _existing(self, names: Iterable[str]) -> set[TopicPartition]:
        return {
            TopicPartition(name, number)
            for name, info in self._cluster.topics(names).items()
            for number in info.partitions
        }

    def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        return self._listed(dict.fromkeys(partitions, EARLIEST))

    def latest(
        self, partitions: Iterable[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> Offsets:
        """The ends of the partitions; retries if one is below a `known` offset."""
        wanted = list(partitions)
        found = self._listed(dict.fromkeys(wanted, LATEST))
        for _ in range(self._options.offset_retries):
            if all(offset >= (known or {}).get(partition, 0) for partition, offset in found.items()):
                break
            self._wait(self._options.offset_retry_ms / 1000)
            found = self._listed(dict.fromkeys(wanted, LATEST))
        return found

    def resolve(self, spec: OffsetSpec, partitions: list[TopicPartition], *, starting: bool) -> Offsets:
        """The offset in each partition."""
        found = self._resolve(spec, partitions, starting=starting)
        deleted = sorted(set(partitions) - set(found))
        if deleted:
            raise LocalError(f"{', '.join(map(str, deleted))} was deleted while its offsets were looked up")
        return found

    def _resolve(self, spec: OffsetSpec, partitions: list[TopicPartition], *, starting: bool) -> Offsets:
        match spec:
            case Earliest():
                return self.earliest(partitions)
            case Latest():
                return self.latest(partitions)
            case Specific(offsets):
                self._check_complete(offsets, partitions, starting=starting)
                return self._specific(offsets)
            case AtTime(timestamp_ms):
                return self._at(dict.fromkeys(partitions, timestamp_ms), starting=starting)
            case AtTimes(timestamps_ms):
                self._check_complete(timestamps_ms, partitions, starting=starting)
                return self._at(timestamps_ms, starting=starting)
            case TimeBack(span_ms):
                since = max(0, self._clock.now_ms() - span_ms)
                return self._or_latest(self._listed(dict.fromkeys(partitions, since)))
            case RecordsBack(count):
                first, last = self.earliest(partitions), self.latest(partitions)
                return {
                    partition: max(first[partition], last[partition] - count)
                    for partition in first
                    if partition in last
                }
            case Committed():
                return self._committed(partitions)

    def _listed(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        """The listed offsets; partitions that do not exist any more are omitted."""
        while wanted:
            try:
                listed = self._cluster.list_offsets(
                    dict(wanted), committed=self._options.settings.read_committed
                )
            except UnknownTopic:
                existing = self._existing({partition.topic for partition in wanted})
                left = {
                    partition: timestamp for partition, timestamp in wanted.items() if partition in existing
                }
                if len(left) == len(wanted):
                    raise
                wanted = left
            else:
                return {partition: listed[partition][0] for partition in wanted}
        return {}

    def _specific(self, offsets: Offsets) -> Offsets:
        symbolic = {
            partition: offset for partition, offset in offsets.items() if offset in {LATEST, EARLIEST}
        }
        given = {partition: offset for partition, offset in offsets.items() if partition not in symbolic}
        return {**given, **self._listed(symbolic)}

    def _at(self, timestamps_ms: Mapping[TopicPartition, int], *, starting: bool) -> Offsets:
        found = self._listed(timestamps_ms)
        missing = sorted(partition for partition, offset in found.items() if offset == _NO_MATCH)
        if missing and starting and self._options.without_match == "error":
            raise LocalError(
                f"no record of {missing[0]} has a timestamp of {timestamps_ms[missing[0]]} or later; set "
                "startingOffsetsByTimestampStrategy=latest to read such a partition from its end"
            )
        return self._or_latest(found)

    def _or_latest(self, found: Offsets) -> Offsets:
        matched = {partition: offset for partition, offset in found.items() if offset != _NO_MATCH}
        return {**matched, **self.latest(partition for partition in found if partition not in matched)}

    def _committed(self, partitions: list[TopicPartition]) -> Offsets:
        group = self._options.settings.group_id or ""
        known = self._cluster.committed_offsets(group, partitions)
        first = self.earliest(partitions)
        return {partition: max(offset, known.get(partition, 0)) for partition, offset in first.items()}

    @staticmethod
    def _check_complete(given: Offsets, partitions: list[TopicPartition], *, starting: bool) -> None:
        if set(given) == set(partitions):
            return
        which = "starting" if starting else "ending"
        existing = {topic: list(numbers) for topic, numbers in to_json(dict.fromkeys(partitions, 0)).items()}
        raise LocalError(
            f"{which} offsets by partition must have all partitions and no others (-1 is latest, -2 is earliest). "
            f"Given: {to_json(given)}; existing: {existing}"
        )
