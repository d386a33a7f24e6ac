"""What a chaos run has found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from ottla.testing.history import Anomaly, Kind


@dataclass
class Summary:
    """Counts and pauses of one run."""

    brokers: int
    seed: int
    faults: Counter[str] = field(default_factory=Counter)
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Records by producer."""
    read: int = 0
    read_by_java: int | None = None
    copied: int = 0
    transactions: int = 0
    new_epochs: int = 0
    """Producer epochs that confluent-kafka has begun; after each of them it may write records twice."""
    bytes_lost: int | None = None
    """Unsynced bytes that power failures have removed."""
    anomalies: list[Anomaly] = field(default_factory=list)
    pauses: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0

    def text(self) -> str:
        kinds = Counter(each.kind for each in self.anomalies)
        reordered = kinds[Kind.NON_MONOTONIC_SEND] + kinds[Kind.NON_MONOTONIC_POLL] + kinds[Kind.POLL_SKIP]
        reordered += kinds[Kind.INTERNAL_NON_MONOTONIC_SEND] + kinds[Kind.INTERNAL_NON_MONOTONIC_POLL]
        other = len(self.anomalies) - reordered - kinds[Kind.LOST_WRITE] - kinds[Kind.DUPLICATE]
        producers = ", ".join(f"{name} {count}" for name, count in self.acknowledged.items())
        java = "" if self.read_by_java is None else f", by the Java group {self.read_by_java}"
        lines = [
            f"{self.brokers} brokers, seed {self.seed}, {self.seconds:.0f} s",
            "  faults        "
            + ", ".join(f"{count} {name}" for name, count in sorted(self.faults.items()) if count),
            f"  acknowledged  {sum(self.acknowledged.values())} ({producers})",
            f"  read by group {self.read}{java}",
            f"  copied        {self.copied} in {self.transactions} transactions",
            f"  new epochs    {self.new_epochs}",
            f"  lost          {kinds[Kind.LOST_WRITE]}",
            f"  duplicated    {kinds[Kind.DUPLICATE]}",
            f"  reordered     {reordered}",
            f"  other         {other}",
        ]
        if self.bytes_lost is not None:
            lines.insert(2, f"  removed       {self.bytes_lost} unsynced bytes, by power failures")
        for name, pauses in sorted(self.pauses.items()):
            if pauses:
                lines.append(
                    f"  pause, {name:<12} median {median(pauses):.2f} s, worst {max(pauses):.2f} s"
                    f" ({len(pauses)} times)"
                )
        lines += [f"  {each.kind}: {each.partition}: {each.detail}" for each in self.anomalies[:20]]
        return "\n".join(lines)


def pause_around(times: list[float], moment: float, window_s: float) -> float | None:
    """The longest time without an acknowledgement that contains or follows a moment, within a window."""
    end = moment + window_s
    before = [each for each in times if each <= moment]
    after = [each for each in times if moment < each <= end]
    if not before or not after:
        return None
    line = [before[-1], *after]
    return max(later - earlier for earlier, later in pairwise(line))
