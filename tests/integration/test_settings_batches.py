"""Settings that check or change produced batches: size, time, compression."""

from __future__ import annotations

import asyncio
import random

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError as AioTooLarge
from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, KafkaError
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError

from ottla.base.clock import SystemClock
from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, create_topic, fresh, read_all
from tests.support.settings import CODECS, alter_topic, contents, refusal, stored_batches

MINUTE_MS = 60_000
TEXT = b"Score 39-46, free throw, quarter end. " * 200


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


# --- max.message.bytes


def test_max_message_bytes_refuses_and_is_changed_while_running(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("size"), config={"max.message.bytes": "1000"})
    assert refusal(brisk.bootstrap, topic, value=noise(900)) is None
    assert refusal(brisk.bootstrap, topic, value=noise(1000)) == KafkaError.MSG_SIZE_TOO_LARGE
    alter_topic(brisk.bootstrap, topic, {"max.message.bytes": "5000"})
    assert refusal(brisk.bootstrap, topic, value=noise(4900)) is None
    alter_topic(brisk.bootstrap, topic, {"max.message.bytes": None})
    assert refusal(brisk.bootstrap, topic, value=noise(900_000)) is None
    assert [len(one.value()) for one in contents(brisk.bootstrap, topic)] == [900, 4900, 900_000]


def test_max_message_bytes_measures_the_batch_as_it_is_compressed(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("size"), config={"max.message.bytes": "1000"})
    assert refusal(brisk.bootstrap, topic, {"compression.type": "zstd"}, value=bytes(100_000)) is None
    assert (
        refusal(brisk.bootstrap, topic, {"compression.type": "zstd"}, value=noise(10_000))
        == KafkaError.MSG_SIZE_TOO_LARGE
    )


def test_max_message_bytes_counts_after_recompression(brisk: BrokerProcess) -> None:
    config = {"max.message.bytes": "1000", "compression.type": "uncompressed"}
    topic = create_topic(brisk.bootstrap, fresh("size"), config=config)
    compressed: dict[str, object] = {"compression.type": "zstd"}
    assert refusal(brisk.bootstrap, topic, compressed, value=bytes(800)) is None
    assert refusal(brisk.bootstrap, topic, compressed, value=bytes(2000)) == KafkaError.MSG_SIZE_TOO_LARGE


def test_other_clients_get_an_error_for_a_message_that_is_too_large(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("size"), config={"max.message.bytes": "1000"})
    producer = KafkaProducer(bootstrap_servers=brisk.bootstrap)
    with pytest.raises(MessageSizeTooLargeError):
        producer.send(topic, noise(2000)).get(30)
    producer.close()

    async def aiokafka_sends() -> None:
        async with AIOKafkaProducer(bootstrap_servers=brisk.bootstrap) as sender:
            await sender.send_and_wait(topic, noise(2000))

    with pytest.raises(AioTooLarge):
        asyncio.run(aiokafka_sends())
    assert contents(brisk.bootstrap, topic) == []


# --- message.timestamp.*


def test_message_timestamp_type_selects_the_clock(brisk: BrokerProcess) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = create_topic(brisk.bootstrap, fresh("time"), config=config)
    publisher = Publisher(brisk.bootstrap)
    before = SystemClock().now_ms()
    publisher.send(topic, [{"value": b"stamped here", "timestamp": 1_000}])
    after = SystemClock().now_ms()
    alter_topic(brisk.bootstrap, topic, {"message.timestamp.type": "CreateTime"})
    publisher.send(topic, [{"value": b"stamped there", "timestamp": 2_000}])
    stamps = [one.timestamp() for one in read_all(brisk.bootstrap, topic, 0)]
    assert stamps[0][0] == TIMESTAMP_LOG_APPEND_TIME
    assert before <= stamps[0][1] <= after
    assert stamps[1] == (TIMESTAMP_CREATE_TIME, 2_000)


def test_log_append_time_holds_inside_compressed_batches(brisk: BrokerProcess) -> None:
    config = {"message.timestamp.type": "LogAppendTime"}
    topic = create_topic(brisk.bootstrap, fresh("time"), config=config)
    publisher = Publisher(brisk.bootstrap, {"compression.type": "lz4", "linger.ms": 50})
    before = SystemClock().now_ms()
    publisher.send(topic, [{"value": TEXT, "timestamp": 1_000 + number} for number in range(5)])
    assert [batch.log_append_time for batch in stored_batches(brisk.data / f"{topic}-0")] == [True]
    assert all(one.timestamp()[1] >= before for one in read_all(brisk.bootstrap, topic, 0))


@pytest.mark.parametrize(
    ("setting", "direction"), [("message.timestamp.before.max.ms", -1), ("message.timestamp.after.max.ms", 1)]
)
def test_a_record_time_must_lie_within_its_bounds(brisk: BrokerProcess, setting: str, direction: int) -> None:
    topic = create_topic(brisk.bootstrap, fresh("time"), config={setting: str(10 * MINUTE_MS)})
    near = SystemClock().now_ms() + direction * 5 * MINUTE_MS
    far = SystemClock().now_ms() + direction * 20 * MINUTE_MS
    assert refusal(brisk.bootstrap, topic, value=b"near", timestamp=near) is None
    assert refusal(brisk.bootstrap, topic, value=b"far", timestamp=far) == KafkaError.INVALID_TIMESTAMP
    alter_topic(brisk.bootstrap, topic, {setting: str(30 * MINUTE_MS)})
    assert refusal(brisk.bootstrap, topic, value=b"far", timestamp=far) is None
    assert [one.value() for one in contents(brisk.bootstrap, topic)] == [b"near", b"far"]


def test_by_default_a_record_may_be_old_but_not_of_the_future(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("time"), config={"retention.ms": "-1"})
    tomorrow = SystemClock().now_ms() + 24 * 60 * MINUTE_MS
    assert refusal(brisk.bootstrap, topic, value=b"old", timestamp=1) is None
    assert refusal(brisk.bootstrap, topic, value=b"x", timestamp=tomorrow) == KafkaError.INVALID_TIMESTAMP


def test_the_bounds_do_not_hold_for_log_append_time(brisk: BrokerProcess) -> None:
    config = {"message.timestamp.type": "LogAppendTime", "message.timestamp.before.max.ms": "1000"}
    topic = create_topic(brisk.bootstrap, fresh("time"), config=config)
    assert refusal(brisk.bootstrap, topic, value=b"old", timestamp=1) is None


# --- compression.*


@pytest.mark.parametrize("sent", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd", "producer"])
def test_compression_type_is_applied_on_disk(brisk: BrokerProcess, sent: str, wanted: str) -> None:
    topic = create_topic(brisk.bootstrap, fresh("codec"), config={"compression.type": wanted})
    values = [TEXT + b"%d" % number for number in range(10)]
    publisher = Publisher(brisk.bootstrap, {"compression.type": sent, "linger.ms": 50})
    publisher.send(topic, [{"key": b"k", "value": value, "headers": {"h": b"1"}} for value in values])
    stored = {"producer": sent, "uncompressed": "none"}.get(wanted, wanted)
    assert {batch.codec for batch in stored_batches(brisk.data / f"{topic}-0")} == {CODECS[stored]}
    messages = read_all(brisk.bootstrap, topic, 0)
    assert [one.value() for one in messages] == values
    assert [(one.key(), one.headers()) for one in messages] == [(b"k", [("h", b"1")])] * 10


def test_compression_is_changed_while_running(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("codec"), config={"compression.type": "gzip"})
    publisher = Publisher(brisk.bootstrap)
    publisher.send(topic, [{"value": TEXT}])
    alter_topic(brisk.bootstrap, topic, {"compression.type": "lz4"})
    publisher.send(topic, [{"value": TEXT}])
    alter_topic(brisk.bootstrap, topic, {"compression.type": None})
    publisher.send(topic, [{"value": TEXT}])
    codecs = [batch.codec for batch in stored_batches(brisk.data / f"{topic}-0")]
    assert codecs == [CODECS["gzip"], CODECS["lz4"], CODECS["none"]]


@pytest.mark.parametrize(("codec", "fast", "thorough"), [("gzip", "1", "9"), ("zstd", "-100", "19")])
def test_compression_levels_change_the_size(
    brisk: BrokerProcess, codec: str, fast: str, thorough: str
) -> None:
    config = {"compression.type": codec, f"compression.{codec}.level": fast}
    topic = create_topic(brisk.bootstrap, fresh("level"), config=config)
    words = [b"foul ", b"score ", b"throw ", b"start ", b"end ", b"39 ", b"46 "]
    text = b"".join(random.Random(1).choices(words, k=5_000))
    publisher = Publisher(brisk.bootstrap)
    publisher.send(topic, [{"value": text}])
    alter_topic(brisk.bootstrap, topic, {f"compression.{codec}.level": thorough})
    publisher.send(topic, [{"value": text}])
    quick, small = stored_batches(brisk.data / f"{topic}-0")
    assert small.size < 0.95 * quick.size
