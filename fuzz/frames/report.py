"""Counts of a run of the fuzzer, as tables."""

from __future__ import annotations

from fuzz.frames.engine import MEMORY_ALLOWANCE_BYTES, Counts
from ottla.wire.apis import ApiKey

_COLUMNS = 4


def api_name(key: int) -> str:
    try:
        return ApiKey(key).name
    except ValueError:
        return "other"


def summary(counts: Counts, seconds: float) -> str:
    """The counts of a run in process."""
    unhandled = counts.failures["unhandled exception"]
    crashes = counts.failures["crash"] + counts.failures["invariant violated"] + counts.failures["violation"]
    rows = [
        ("frames", f"{counts.frames:,}"),
        ("bytes", f"{counts.bytes:,}"),
        ("connections", f"{counts.connections:,}"),
        ("responses", f"{counts.responded:,}"),
        ("refused (connection closed)", f"{counts.refused:,}"),
        ("still waiting after its turn", f"{counts.waiting:,}"),
        ("clusters", f"{counts.rounds:,}"),
        ("crashes", f"{crashes:,}"),
        ("unhandled exceptions", f"{unhandled:,}"),
        ("requests over 1 s", f"{counts.slow:,}"),
        ("slowest request", f"{counts.slowest_seconds * 1000:.0f} ms: {counts.slowest[:60]}"),
        ("frames whose memory was measured", f"{counts.sampled:,}"),
        (
            f"memory above {MEMORY_ALLOWANCE_BYTES >> 20} MiB, per byte received",
            f"{counts.memory_per_byte:.2f} (at most 4 allowed)",
        ),
        ("most memory of one frame", f"{counts.memory_peak / 2**20:.1f} MiB"),
        ("most memory of a process", f"{counts.max_rss_bytes / 2**20:.0f} MiB"),
        ("time", f"{seconds:,.0f} s, {counts.frames / max(seconds, 0.001):,.0f} frames/s"),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)


def by_api(counts: Counts) -> str:
    """Frames of each API, in columns."""
    total: dict[str, int] = {}
    for key, number in counts.by_api.items():
        total[api_name(key)] = total.get(api_name(key), 0) + number
    cells = [
        f"{name.lower():<31}{number:>10,}"
        for name, number in sorted(total.items(), key=lambda each: -each[1])
    ]
    rows = -(-len(cells) // _COLUMNS)
    return "\n".join("  ".join(cells[row::rows]) for row in range(rows))
