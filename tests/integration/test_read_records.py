"""Reading, filtering and producing of records on a real broker; also with `--on-kafka`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla.admin.positions import OffsetOutsideLog, parse_range
from ottla.admin.records.browse import Browser
from ottla.admin.records.decode import Form
from ottla.admin.records.record_input import Input
from ottla.admin.records.scan import ConsumedRecord
from ottla.admin.records.timeline import timeline
from ottla.admin.records.where import compile_filter
from ottla.admin.session import Session
from ottla.base.clock import SystemClock
from ottla.base.ids import TopicPartition
from ottla.cli.records import produce
from ottla.cli.records.consume import ConsumeOptions, Consumption
from ottla.cli.records.produce import ProduceOptions
from ottla.cli.records.record_output import JsonLinesWriter
from ottla.client.raw import LATEST, UnknownTopic
from ottla.local.broker_process import BrokerProcess
from tests.support.clients import TIMEOUT_S, Publisher, create_topic, fresh
from tests.support.waiting import wait_until

START_MS = 1_794_909_600_000


@pytest.fixture
def session(broker: BrokerProcess) -> Iterator[Session]:
    with Session(broker.bootstrap, timeout_s=TIMEOUT_S) as made:
        yield made


def publish(session: Session, topic: str, values: list[Any], **more: Any) -> None:
    Publisher(session.bootstrap).send(
        topic,
        [
            {"value": value, "timestamp": START_MS + index * 1000, **more}
            for index, value in enumerate(values)
        ],
    )


def values(records: Any) -> list[bytes | None]:
    return [record.value for record in records]


def test_records_of_all_partitions_in_order_of_time(session: Session) -> None:
    topic = create_topic(session.bootstrap, fresh("browse"), 3)
    sent = [str(number).encode() for number in range(30)]
    for index, value in enumerate(sent):
        Publisher(session.bootstrap).send(
            topic, [{"value": value, "partition": index % 3, "timestamp": START_MS + index}]
        )
    assert values(Browser(session, [topic]).records()) == sent
    assert values(Browser(session, [topic], newest_first=True).records()) == sent[::-1]
    assert values(Browser(session, [topic], parse_range(f"@{START_MS + 25}")).records()) == sent[25:]
    volume = timeline(session, topic, 3)
    assert (volume.counts, volume.start_ms, volume.end_ms) == ((10, 10, 10), START_MS, START_MS + 29)


def transaction(producer: Producer, topic: str, values: list[bytes], commit: bool) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush(TIMEOUT_S)
    if commit:
        producer.commit_transaction(TIMEOUT_S)
    else:
        producer.abort_transaction(TIMEOUT_S)


@pytest.mark.parametrize("newest_first", [False, True])
def test_markers_and_aborted_records_do_not_make_it_wait(session: Session, newest_first: bool) -> None:
    topic = create_topic(session.bootstrap, fresh("markers"))
    producer = Producer({"bootstrap.servers": session.bootstrap, "transactional.id": fresh("id")})
    producer.init_transactions(TIMEOUT_S)
    transaction(producer, topic, [b"a", b"b"], commit=True)
    transaction(producer, topic, [b"lost"], commit=False)
    transaction(producer, topic, [b"c"], commit=True)
    wait_until(lambda: _stable_end(session, topic) == 7, "the markers")
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(TIMEOUT_S)
    everything = Browser(session, [topic], newest_first=newest_first)
    assert sorted(values(everything.records())) == [b"a", b"b", b"c", b"lost", b"open"]
    assert everything.progress.done == everything.progress.total == 8
    committed = Browser(session, [topic], committed=True, newest_first=newest_first)
    assert sorted(values(committed.records())) == [b"a", b"b", b"c"]
    assert committed.progress.total == 7
    producer.abort_transaction(TIMEOUT_S)


def test_a_compacted_topic_is_read_to_its_end(brisk: BrokerProcess) -> None:
    config = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.01"}
    topic = create_topic(brisk.bootstrap, fresh("compacted"), config=config)
    old_ms = SystemClock().now_ms() - 3_600_000
    for index in range(12):
        Publisher(brisk.bootstrap).send(
            topic, [{"key": b"k%d" % (index % 2), "value": b"%d" % index, "timestamp": old_ms + index * 1000}]
        )
    with Session(brisk.bootstrap, timeout_s=TIMEOUT_S) as made:
        wait_until(lambda: len(list(Browser(made, [topic]).records())) < 6, "the cleaner")
        for newest_first in (False, True):
            browser = Browser(made, [topic], newest_first=newest_first)
            assert b"11" in values(browser.records())
            assert browser.progress.done == browser.progress.total == 12
            assert browser.lost == {}


def test_large_and_binary_records(session: Session) -> None:
    config = {"max.message.bytes": str(8 << 20)}
    topic = create_topic(session.bootstrap, fresh("large"), config=config)
    large = [bytes([number]) * (3 << 20) for number in range(4)]
    publisher = Publisher(session.bootstrap, {"message.max.bytes": 8 << 20})
    for value in [*large, b"\xff\x00\xfe", b"[" * 100_000]:
        publisher.send(topic, [{"value": value}])
    assert [len(value or b"") for value in values(Browser(session, [topic]).records())] == [3 << 20] * 4 + [
        3,
        100_000,
    ]
    newest = Browser(session, [topic], newest_first=True)
    assert next(newest.records()).value == b"[" * 100_000
    where = compile_filter("value ~ '[[]*' or value[0]", 0)
    assert [one.offset for one in Browser(session, [topic], where=where).records()] == [5]


def test_a_search_of_a_whole_topic(session: Session) -> None:
    topic = create_topic(session.bootstrap, fresh("search"), 2)
    publish(session, topic, [b'{"number": %d, "type": "goal"}' % number for number in range(5000)])
    where = compile_filter("value.type = 'goal' and value.number = 4321", 0)
    browser = Browser(session, [topic], where=where)
    (found,) = list(browser.records())
    assert found.timestamp == START_MS + 4_321_000
    assert browser.progress.fraction == 1.0
    assert browser.progress.total == 5000


def test_wrong_positions_and_topics(session: Session) -> None:
    topic = create_topic(session.bootstrap, fresh("wrong"))
    publish(session, topic, [b"a", b"b"])
    with pytest.raises(
        OffsetOutsideLog, match=f"{topic}-0 has no offset 5: its log starts at 0 and ends at 2"
    ):
        Browser(session, [topic], parse_range("5"))
    with pytest.raises(UnknownTopic):
        Browser(session, [fresh("absent")])
    empty = create_topic(session.bootstrap, fresh("empty"), 2)
    assert list(Browser(session, [empty]).records()) == []
    assert list(Browser(session, [empty], newest_first=True).records()) == []
    assert timeline(session, empty).counts == ()


def test_new_records_are_followed(session: Session) -> None:
    topic = create_topic(session.bootstrap, fresh("follow"), 2)
    browser = Browser(session, [topic], parse_range("end"))
    found: list[ConsumedRecord] = []
    for records in browser.follow():
        found += records
        if len(found) == 2:
            browser.cancel()
        elif not records:
            publish(session, topic, [b"new"])
    assert values(found) == [b"new", b"new"]


# --- the commands


def exported(session: Session, *topics: str, **options: Any) -> bytes:
    out = io.BytesIO()
    Consumption(session, ConsumeOptions(topics, **options)).run(JsonLinesWriter(out, Form.AUTO), out)
    return out.getvalue()


def imported(session: Session, topic: str, lines: bytes, **options: Any) -> Any:
    made = ProduceOptions(topic, input=Input.JSONL, **options)
    made.check()
    return produce.run(session, made, io.BytesIO(lines))


def test_what_was_consumed_can_be_produced_again(session: Session) -> None:
    source = create_topic(session.bootstrap, fresh("source"), 2)
    copy = create_topic(session.bootstrap, fresh("copy"), 2)
    contents: list[tuple[Any, Any, Any]] = [
        (b"k", b"v", []),
        (None, None, None),
        (b"", b"", [("h", b"1"), ("h", None), ("h", b""), ("b", b"\xff")]),
        (b"\xff\x00", b"\x80" * 10, [("\u00e9", "\u00e9".encode())]),
        (b"null", b"null", []),
        (b'{"a": 1}', b'{"b":\n [1,  2]}\n', []),
    ]
    Publisher(session.bootstrap).send(
        source,
        [
            {
                "key": key,
                "value": value,
                "headers": headers or [],
                "partition": index % 2,
                "timestamp": START_MS + index,
            }
            for index, (key, value, headers) in enumerate(contents)
        ],
    )
    lines = exported(session, source)
    assert lines.count(b"\n") == len(contents)
    sent = imported(session, copy, lines)
    assert (sent.delivered, sent.failed) == (len(contents), 0)
    before = list(Browser(session, [source]).records())
    after = list(Browser(session, [copy]).records())
    assert [one._replace(topic=copy) for one in before] == after
    assert [(one.key, one.value) for one in after] == [(key, value) for key, value, _ in contents]
    assert after[2].headers == (("h", b"1"), ("h", None), ("h", b""), ("b", b"\xff"))


def test_records_that_fail_are_reported_and_the_others_are_produced(session: Session) -> None:
    topic = create_topic(session.bootstrap, fresh("failing"), config={"max.message.bytes": "2000"})
    lines = b'{"value": "a"}\n{"value": "%s"}\n{"value": "b", "partition": 7}\n{"value": "c"}\n' % (
        b"x" * 5000
    )
    sent = imported(session, topic, lines)
    assert (sent.delivered, sent.failed) == (2, 2)
    assert sorted(number for number, _ in sent.errors) == [2, 3]
    reasons = dict(sent.errors)
    assert "MSG_SIZE_TOO_LARGE" in reasons[2]
    assert "UNKNOWN_PARTITION" in reasons[3]
    assert sorted(values(Browser(session, [topic]).records())) == [b"a", b"c"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_transaction_has_all_records_or_none(session: Session, fails: bool) -> None:
    topic = create_topic(session.bootstrap, fresh("transaction"), config={"max.message.bytes": "2000"})
    lines = b'{"value": "a"}\n{"value": "%s"}\n' % (b"x" * (5000 if fails else 5))
    sent = imported(session, topic, lines, transactional=True)
    assert sent.aborted is fails
    # The markers follow the response of the coordinator.
    wait_until(lambda: _stable_end(session, topic) == 3 - fails, "the marker")
    assert len(list(Browser(session, [topic], committed=True).records())) == (0 if fails else 2)


def _stable_end(session: Session, topic: str) -> int:
    tp = TopicPartition(topic, 0)
    return session.cluster.list_offsets({tp: LATEST}, committed=True)[tp][0]


@pytest.mark.parametrize("transactional", [False, True])
def test_a_line_that_is_not_a_record_ends_the_input(session: Session, transactional: bool) -> None:
    topic = create_topic(session.bootstrap, fresh("invalid"))
    sent = imported(session, topic, b'{"value": "a"}\n{\n{"value": "b"}\n', transactional=transactional)
    assert (sent.failed, sent.aborted) == (1, transactional)
    assert [number for number, _ in sent.errors] == [2]
    end = 2 if transactional else 1
    wait_until(lambda: _stable_end(session, topic) == end, "the marker")
    visible = list(Browser(session, [topic], committed=True).records())
    assert values(visible) == ([] if transactional else [b"a"])


def test_a_group_reads_to_the_end_and_continues_there(session: Session) -> None:
    topic = create_topic(session.bootstrap, fresh("group"), 2)
    group = fresh("readers")
    publish(session, topic, [b"a", b"b", b"c"], partition=0)
    producer = Producer({"bootstrap.servers": session.bootstrap, "transactional.id": fresh("id")})
    producer.init_transactions(TIMEOUT_S)
    transaction(producer, topic, [b"t"], commit=True)
    wait_until(lambda: _stable_end(session, topic) == 5, "the marker")

    def read(**options: Any) -> list[str]:

        lines = exported(session, topic, group=group, **options).splitlines()
        return [json.loads(line)["value"] for line in lines]

    assert read(count=2) == ["a", "b"]
    assert read() == ["c", "t"]
    assert read() == []
    partitions = [TopicPartition(topic, index) for index in range(2)]
    committed = session.cluster.committed_offsets(group, partitions)
    assert committed[partitions[0]] == 5
