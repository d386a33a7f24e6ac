from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.records.compression import Codec
from ottla.spark.sink.options import SinkOptions

BASE = {"kafka.bootstrap.servers": "h:1", "topic": "t"}


def parse(streaming: bool = True, **given: str) -> SinkOptions:
    return SinkOptions.parse(
        {**BASE, **{name.replace("_", "."): value for name, value in given.items()}}, streaming=streaming
    )


def test_a_stream_is_exactly_once_and_a_batch_at_least_once() -> None:
    assert parse().exactly_once
    assert not parse(streaming=False).exactly_once
    assert parse(streaming=False, deliveryGuarantee="Exactly-Once").exactly_once
    assert not parse(deliveryGuarantee="at-least-once").exactly_once


def test_defaults() -> None:
    options = parse()
    assert options.transactional_id_prefix == "ottla-sink"
    assert options.commit_log_topic == "__ottla_sink_ledger"
    assert options.transaction_timeout_ms == 900_000
    assert options.batch_bytes == 1 << 20
    assert options.sticky_bytes == 16_384


def test_the_producers_settings_are_taken_in_both_spellings() -> None:
    options = parse(
        kafka_compression_codec="zstd",
        kafka_transaction_timeout_ms="60000",
        kafka_batch_size="100000",
        kafka_acks="1",
    )
    assert options.settings.codec is Codec.ZSTD
    assert options.transaction_timeout_ms == 60_000
    assert (options.batch_bytes, options.sticky_bytes) == (100_000, 100_000)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"kafka_value_serializer": "S"}, "kafka.value.serializer is not supported"),
        ({"kafka_transactional_id": "x"}, "transactionalIdPrefix"),
        ({"kafka_partitioner_class": "x.Y"}, "kafka.partitioner.class is not supported"),
        ({"kafka_partitioner": "random"}, "kafka.partitioner is not supported"),
        ({"kafka_acks": "2"}, "kafka.acks must be one of"),
        ({"deliveryGuarantee": "twice"}, "exactly-once, at-least-once"),
        ({"kafka_batch_size": "0"}, "batch.size must be positive"),
    ],
)
def test_what_cannot_work_is_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(LocalError, match=reason):
        parse(**given)


def test_every_sink_of_a_query_has_a_name() -> None:
    """By topic, or as the user says; the same each time it is asked, whatever else is set."""
    base = {"kafka.bootstrap.servers": "h:1"}
    given: list[dict[str, str]] = [
        {"topic": "a"},
        {"topic": "b"},
        {},
        {"sinkName": "a"},
        {"sinkName": "x", "topic": "a"},
    ]
    names = [SinkOptions.parse({**base, **one}, streaming=True).sink for one in given]
    assert len(set(names)) == len(names)
    again = SinkOptions.parse({**base, "topic": " a ", "kafka.batch.size": "9"}, streaming=True)
    assert again.sink == names[0]
    renamed = SinkOptions.parse({**base, "topic": "c", "sinkName": "x"}, streaming=True)
    assert renamed.sink == names[4]
