"""Settings of client metrics subscriptions (resource type CLIENT_METRICS)."""

from __future__ import annotations

from ottla.config.tables.notation import ACCEPTED, ANYTHING, CLUSTER, INT, LIST, MEDIUM, Key, items

# fmt: off
KEYS = (
    Key("metrics", LIST, "", MEDIUM, CLUSTER, ACCEPTED, items(),
        "Prefixes of the client metrics to collect; * means all, none means nothing."),
    Key("interval.ms", INT, "300000", MEDIUM, CLUSTER, ACCEPTED, ANYTHING,
        "Interval at which a client sends metrics."),
    Key("match", LIST, "", MEDIUM, CLUSTER, ACCEPTED, items(),
        "Patterns that select clients, as selector=pattern entries."),
)
