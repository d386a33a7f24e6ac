"""The options of the sink: those of Spark's Kafka connector, and the delivery guarantee.

Settings for the buffer of Java's producer (`linger.ms`, `buffer.memory`, ...) have no meaning here, where whole columns
become batches; they are ignored. `acks` is always `all`. Pure.
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
"""The default of the brokers' transaction.max.timeout.ms."""
_STICKY_BYTES_DEFAULT: Final = 16_384
"""The default of Java's batch.size: bytes without a key for one partition before the next one is used."""
_REJECTED: Final = {
    "key.serializer": "keys are written from string or binary columns: convert them with DataFrame operations",
    "value.serializer": "values are written from string or binary columns: convert them with DataFrame operations",
    "transactional.id": "each task has its own id; set the prefix of the ids with transactionalIdPrefix",
}
_PARTITIONERS: Final = ("murmur2", "murmur2_random")
_SINK_DIGITS: Final = 8
_ACKS: Final = ("all", "-1", "1", "0")


@dataclass(frozen=True)
class SinkOptions:
    """The parsed options of a write."""

    settings: ClientSettings
    topic: str | None
    exactly_once: bool
    sink: str
    """The identity of this sink within its query; with `foreachBatch` a query can have several sinks."""
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
    """A short hash of the sink name or the topic, for transactional ids."""
    identity = f"name {name}" if name else f"topic {topic}" if topic else "topic of each row"
    return hashlib.sha256(identity.encode()).hexdigest()[:_SINK_DIGITS]


def _check_partitioner(client: Mapping[str, str]) -> None:
    name = client.get("partitioner.class") or None
    partitioner = client.get("partitioner") or None
    if name is not None or partitioner not in {None, *_PARTITIONERS}:
        raise LocalError(
            f"option kafka.partitioner{'' if name is None else '.class'} is not supported: the sink "
            "uses the default partitioner of Java's client; to choose partitions, write a column partition"
        )
