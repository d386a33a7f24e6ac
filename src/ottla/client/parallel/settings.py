"""Settings of the librdkafka clients: fixed values of the consumer, inherited values of the dead-letter producer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ottla.base.errors import LocalError
from ottla.client.parallel.options import Options

_FIXED: dict[str, tuple[bool, str]] = {
    "enable.auto.commit": (False, "records that are not done would be committed"),
    "enable.auto.offset.store": (False, "records that are not done would be committed"),
    "enable.partition.eof": (True, "offsets without a record at the end of a partition are not detected"),
}
_SHARED = ("bootstrap.servers", "client.id", "metadata.broker.list")
_SHARED_PREFIXES = ("security.", "sasl.", "ssl.", "enable.ssl.", "socket.", "broker.address.", "https.")
_SHARED_CALLBACKS = ("oauth_cb", "logger")
_MAX_POLL_INTERVAL_MS = 300_000  # librdkafka's default


def consumer_settings(
    given: Mapping[str, Any], options: Options, on_commit: Callable[..., None]
) -> dict[str, Any]:
    """The settings of the user with the fixed ones. Raise LocalError if they conflict."""
    if not given.get("group.id"):
        raise LocalError(
            "group.id is required: its members share the partitions, and offsets are committed for it"
        )
    if "on_commit" in given:
        raise LocalError(
            "on_commit is used by the parallel consumer; progress() returns the committed offsets"
        )
    for name, (value, why) in _FIXED.items():
        if name in given and str(given[name]).lower() != str(value).lower():
            raise LocalError(f"remove {name}, or set it to {str(value).lower()}: otherwise {why}")
    interval_ms = int(given.get("max.poll.interval.ms", _MAX_POLL_INTERVAL_MS))
    if options.handover_timeout_s * 1000 >= interval_ms:
        raise LocalError(
            f"handover_timeout_s ({options.handover_timeout_s:g}) must be shorter than max.poll.interval.ms"
            f" ({interval_ms}): while a rebalance waits for running handlers, the consumer does not poll"
        )
    return {**given, **{name: value for name, (value, _) in _FIXED.items()}, "on_commit": on_commit}


def is_cooperative(settings: Mapping[str, Any]) -> bool:
    """Whether assignments are incremental."""
    strategies = str(settings.get("partition.assignment.strategy", ""))
    return settings.get("group.protocol") == "consumer" or "cooperative" in strategies


def dead_letter_settings(given: Mapping[str, Any], own: Mapping[str, Any] | None) -> dict[str, Any]:
    """Settings of the dead-letter producer: the connection of the consumer, acks=all, then `own`."""
    shared = {
        name: value
        for name, value in given.items()
        if name in _SHARED or name in _SHARED_CALLBACKS or name.startswith(_SHARED_PREFIXES)
    }
    return {**shared, "enable.idempotence": True, "acks": "all", **(own or {})}
