"""Typed values, transactions and losses, through Spark."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

ORDER = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def test_json_values_are_typed_columns(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    texts: list[bytes | None] = [
        b'{"id":1,"name":"one","at":"2024-05-06T07:08:09.123Z","tags":["x","y"],"place":{"row":3}}',
        b'{"id":"no number"}',
        None,
        b'{ "name": "two",\n "day": "2024-01-02", "unknown": [1, {"a": 2}] }',
        b'{"id":1}{"id":2}',
    ]
    send(topic, [{"value": text} for text in texts])
    frame = read(
        subscribe=topic,
        columns="offset, value",
        valueFormat="json",
        valueSchema="id BIGINT, name STRING, at TIMESTAMP, day DATE, tags ARRAY<STRING>, place STRUCT<row: INT>",
    )
    assert [name for name, _ in frame.dtypes] == [
        "offset", "id", "name", "at", "day", "tags", "place", "_corrupt",
    ]  # fmt: skip
    rows = frame.orderBy("offset").collect()
    assert (rows[0].id, rows[0].name, rows[0].tags, rows[0].place.row) == (1, "one", ["x", "y"], 3)
    assert rows[0].at.replace(tzinfo=None).microsecond == 123_000
    assert rows[3].name == "two"
    assert rows[3].day == datetime.date(2024, 1, 2)
    assert [row._corrupt for row in rows] == [None, texts[1], None, None, texts[4]]


def test_text_values_are_strings(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    send(topic, [{"value": "gr\u00fc\u00df".encode()}, {"value": b"\xff"}, {"value": None}])
    rows = read(subscribe=topic, columns="value,offset", valueFormat="string").orderBy("offset").collect()
    assert [(row.value, row._corrupt) for row in rows] == [
        ("gr\u00fc\u00df", None),
        (None, b"\xff"),
        (None, None),
    ]


def test_avro_values_are_typed_columns(read: Any, send: Any, new_topic: Any) -> None:
    topic = new_topic()
    # id 7, branch 1, "ab", 1000 ms; then one without a name; then one that ends too early
    send(
        topic,
        [{"value": b"\x0e\x02\x04ab\xd0\x0f"}, {"value": b"\x10\x00\x00"}, {"value": b"\x0e\x02\x04a"}],
    )
    frame = read(subscribe=topic, columns="value", valueFormat="avro", valueSchema=json.dumps(ORDER))
    assert frame.dtypes == [("id", "bigint"), ("name", "string"), ("at", "timestamp"), ("_corrupt", "binary")]
    rows = frame.selectExpr("id", "name", "unix_millis(at) at", "_corrupt").collect()
    assert [tuple(row) for row in rows] == [
        (7, "ab", 1000, None),
        (8, None, 0, None),
        (None, None, None, b"\x0e\x02\x04a"),
    ]


def test_a_typed_column_may_not_hide_another(read: Any, new_topic: Any) -> None:
    with pytest.raises(Exception, match=r"(?i)duplicate|two columns"):
        read(subscribe=new_topic(), valueFormat="json", valueSchema="topic STRING").collect()


def test_aborted_records_are_gaps_for_readers_of_committed_ones(
    read: Any, broker: Any, new_topic: Any
) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for number, commit in enumerate((True, False, True)):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, str(number).encode())
        producer.flush(30)
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
    committed = read(subscribe=topic, kafka__isolation__level="read_committed")
    assert sorted(row.value for row in committed.collect()) == [b"0"] * 3 + [b"2"] * 3
    everything = read(subscribe=topic, minPartitions=5)
    assert sorted(row.offset for row in everything.collect()) == [0, 1, 2, 4, 5, 6, 8, 9, 10]


def test_deleted_records_are_a_loss(read: Any, send: Any, broker: Any, new_topic: Any) -> None:
    topic = new_topic()
    send(topic, [{"value": str(number).encode()} for number in range(10)])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    place = TopicPartition(topic, 0, 6)
    admin.delete_records([place])[place].result(30)
    planned = {"subscribe": topic, "startingOffsets": json.dumps({topic: {"0": 2}})}
    with pytest.raises(Exception, match="failOnDataLoss"):
        read(**planned).collect()
    assert sorted(row.offset for row in read(**planned, failOnDataLoss="false").collect()) == [6, 7, 8, 9]
    cut = read(**planned, failOnDataLoss="false", endingOffsets=json.dumps({topic: {"0": 4}}))
    assert cut.collect() == []
