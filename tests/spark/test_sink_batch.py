"""`df.write.format("ottla")`: what arrives, where, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.records.kernel import murmur2
from tests.support.sink_queries import open_transactions, read_committed


def write(frame: Any, broker: Any, **options: str) -> None:
    writer = frame.write.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap).mode("append")
    for name, value in options.items():
        writer = writer.option(name.replace("_", "."), value)
    writer.save()


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_records_go_where_their_keys_say(
    spark: Any, broker: Any, new_topic: Callable[..., str], guarantee: str, codec: str
) -> None:
    topic = new_topic(4)
    frame = spark.range(1000).selectExpr("concat('k', id) as key", "cast(id as string) as value")
    write(frame, broker, topic=topic, deliveryGuarantee=guarantee, kafka_compression_type=codec)
    found = read_committed(broker.bootstrap, topic, 4)
    assert sorted(int(value or b"") for _, _, value, _ in found) == list(range(1000))
    for partition, key, value, _ in found:
        assert key == b"k" + (value or b"")
        assert partition == (murmur2(key) & 0x7FFFFFFF) % 4


def test_columns_choose_topic_partition_and_headers(
    spark: Any, broker: Any, new_topic: Callable[..., str]
) -> None:
    first, second = new_topic(3), new_topic(3)
    frame = spark.range(30).selectExpr(
        f"if(id % 2 = 0, '{first}', '{second}') as topic",
        "cast(if(id < 20, id % 3, null) as int) as partition",
        "if(id = 7, null, cast(cast(id as string) as binary)) as value",
        "if(id % 2 = 0, array(named_struct('key', 'h', 'value', cast(cast(id as string) as binary))), null) as headers",
    )
    write(frame, broker)
    for topic, odd in ((first, 0), (second, 1)):
        found = read_committed(broker.bootstrap, topic, 3)
        numbers = {int(value): (partition, headers) for partition, _, value, headers in found if value}
        assert set(numbers) == {number for number in range(30) if number % 2 == odd} - {7}
        assert len(found) == 15
        for number, (partition, headers) in numbers.items():
            if number < 20:
                assert partition == number % 3
            assert headers == (None if odd else [("h", str(number).encode())])


def test_rows_without_keys_are_spread(spark: Any, broker: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4)
    write(spark.range(20_000).selectExpr("rpad(cast(id as string), 50, '.') as value"), broker, topic=topic)
    found = read_committed(broker.bootstrap, topic, 4)
    counts = [sum(1 for partition, *_ in found if partition == index) for index in range(4)]
    assert sum(counts) == 20_000
    assert min(counts) > 2_000


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        (["'x' as key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["'x' as value"], {}, "topic option required when no 'topic' attribute is present"),
        (["id as value"], {"topic": "t"}, "value attribute unsupported type bigint"),
        (["'x' as value", "id as partition"], {"topic": "t"}, "partition attribute unsupported type bigint"),
        (
            ["'x' as value"],
            {"topic": "t", "kafka_key_serializer": "S"},
            "kafka.key.serializer is not supported",
        ),
        (["'x' as value"], {"topic": "t", "deliveryGuarantee": "maybe"}, "exactly-once, at-least-once"),
        (["'x' as value", "cast(null as string) as topic"], {}, "null topic present in the data"),
    ],
)
def test_what_cannot_be_written_is_refused(
    spark: Any, broker: Any, columns: list[str], options: dict[str, str], reason: str
) -> None:
    with pytest.raises(Exception, match=reason):
        write(spark.range(1).selectExpr(*columns), broker, **options)


def test_a_failed_job_leaves_nothing(spark: Any, broker: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    frame = spark.range(0, 1000, 1, 2).selectExpr(
        "if(id = 999, raise_error('enough'), cast(id as string)) as value"
    )
    with pytest.raises(Exception, match="enough"):
        write(frame, broker, topic=topic, deliveryGuarantee="exactly-once", transactionalIdPrefix=topic)
    assert open_transactions(broker.bootstrap, topic) == []
    assert read_committed(broker.bootstrap, topic, 2) == []
