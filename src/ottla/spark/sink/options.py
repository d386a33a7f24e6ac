"""The options of the sink: those of Spark's Kafka connector, and how sure a record is to be there once.

Settings of Java's producer that shape its buffer (`linger.ms`, `buffer.memory`, ...) have no meaning here, where whole
columns become batches: they are left alone. `acks` is always all, the strongest. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import LocalError
from ottla.client.raw import ClientSettings
from ottla.spark.options import Options

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
COMMIT_LOG_TOPIC: Final = "__ottla_sink_ledger"
TRANSACTIONAL_ID_PREFIX: Final = "ottla-sink"
_TIMEOUT_DEFAULT_MS: Final = 900_000
"""The longest that brokers allow, unless their transaction.max.timeout.ms says otherwise."""
_STICKY_BYTES_DEFAULT: Final = 16_384
"""Java's batch.size: how much goes to one partition before another gets records without a key."""
_REJECTED: Final = {
    "key.serializer": "keys are written from string or binary columns: convert them with DataFrame operations",
    "value.serializer": "values are written from string or binary columns: convert them with DataFrame operations",
    "transactional.id": "every task has an id of its own: set the beginning of them all with transactionalIdPrefix",
}
_PARTITIONERS: Final = ("murmur2", "murmur2_random")
_SINK_DIGITS: Final = 8
_ACKS: Final = ("all", "-1", "1", "0")


@dataclass(frozen=True)
class SinkOptions:
    """Everything that a write to `ottla` was asked for."""

    settings: ClientSettings
    topic: str | None
    exactly_once: bool
    sink: str
    """Which of its query's sinks this is: of what is written in `foreachBatch` a query can have several."""
    transactional_id_prefix: str
    commit_log_topic: str
    transaction_timeout_ms: int
    batch_bytes: int
    sticky_bytes: int
    ignore_keys: bool

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool) -> SinkOptions:
        options = Options(given)
        client = options.client(_REJECTED)
        default = EXACTLY_ONCE if streaming else AT_LEAST_ONCE
        guarantee = options.choice("deliveryGuarantee", (EXACTLY_ONCE, AT_LEAST_ONCE), default)
        settings = ClientSettings.from_options(client)
        _check_partitioner(client)
        acks = client.get("acks", client.get("request.required.acks", "all")).strip().lower()
        if acks not in _ACKS:
            raise LocalError(f"option kafka.acks must be one of {', '.join(_ACKS)}, got {acks!r}")
        batch_size = Options(client).positive("batch.size")
        explicit_timeout = "transaction.timeout.ms" in client
        topic = (options.text("topic") or "").strip() or None
        return cls(
            settings=settings,
            topic=topic,
            exactly_once=guarantee == EXACTLY_ONCE,
            sink=_sink_of(options.text("sinkName"), topic),
            transactional_id_prefix=options.text("transactionalIdPrefix") or TRANSACTIONAL_ID_PREFIX,
            commit_log_topic=options.text("ledgerTopic") or COMMIT_LOG_TOPIC,
            transaction_timeout_ms=settings.transaction_timeout_ms
            if explicit_timeout
            else _TIMEOUT_DEFAULT_MS,
            batch_bytes=min(batch_size or settings.max_request_bytes, settings.max_request_bytes),
            sticky_bytes=batch_size or _STICKY_BYTES_DEFAULT,
            ignore_keys=Options(client).flag("partitioner.ignore.keys", default=False),
        )


def _sink_of(name: str | None, topic: str | None) -> str:
    """Short and of letters that transactional ids have; two of one query are never the same by chance."""
    told = f"name {name}" if name else f"topic {topic}" if topic else "topic of each row"
    return hashlib.sha256(told.encode()).hexdigest()[:_SINK_DIGITS]


def _check_partitioner(client: Mapping[str, str]) -> None:
    name = client.get("partitioner.class") or None
    partitioner = client.get("partitioner") or None
    if name is not None or partitioner not in {None, *_PARTITIONERS}:
        raise LocalError(
            f"option kafka.partitioner{'' if name is None else '.class'} is not supported: records go where Java's "
            "default partitioner puts them; choose partitions yourself with a column partition"
        )
