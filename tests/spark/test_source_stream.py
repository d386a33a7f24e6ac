"""`spark.readStream.format("ottla")`: starts, limits, triggers, checkpoints, partitions that come and go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.support.clients import Publisher
from tests.support.waiting import wait_until

TIMEOUT_S = 180.0


class Kept:
    """Collects what a query writes, by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}

    def __call__(self, frame: Any, batch: int) -> None:
        self.batches[batch] = frame.collect()

    @property
    def rows(self) -> list[Any]:
        return [row for _, rows in sorted(self.batches.items()) for row in rows]

    def values(self) -> list[bytes]:
        return sorted(row.value for row in self.rows)


def values(count: int, first: int = 0) -> list[dict[str, object]]:
    return [{"value": f"{number:04d}".encode()} for number in range(first, first + count)]


def names(count: int, first: int = 0) -> list[bytes]:
    return [f"{number:04d}".encode() for number in range(first, first + count)]


def run_available(frame: Any, kept: Any, checkpoint: str) -> Any:
    query = (
        frame.writeStream.foreachBatch(kept)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(TIMEOUT_S), "the query did not end"
    return query


def test_available_now_reads_what_is_there_and_continues_in_the_next_run(
    stream: Any, send: Any, new_topic: Any, checkpoint: str
) -> None:
    topic = new_topic(2)
    send(topic, values(10))
    first, second = Kept(), Kept()
    run_available(stream(subscribe=topic, startingOffsets="earliest"), first, checkpoint)
    assert first.values() == names(10)
    send(topic, values(5, 10))
    run_available(stream(subscribe=topic, startingOffsets="earliest"), second, checkpoint)
    assert second.values() == names(5, 10)


def test_the_checkpoint_holds_the_connectors_offsets(
    stream: Any, send: Any, new_topic: Any, checkpoint: str
) -> None:
    topic = new_topic(1)
    send(topic, values(7))
    run_available(stream(subscribe=topic, startingOffsets="earliest"), Kept(), checkpoint)
    last = sorted(Path(checkpoint, "offsets").glob("[0-9]"))[-1].read_text().splitlines()[-1]
    assert json.loads(last) == {topic: {"0": 7}}


def test_limits_per_trigger_are_kept(stream: Any, send: Any, new_topic: Any, checkpoint: str) -> None:
    topic = new_topic(2)
    send(topic, [{**record, "partition": number % 2} for number, record in enumerate(values(20))])
    kept = Kept()
    run_available(
        stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=6), kept, checkpoint
    )
    assert [len(rows) for _, rows in sorted(kept.batches.items())] == [6, 6, 6, 2]
    assert kept.values() == names(20)


def test_latest_starts_at_the_end_and_survives_a_crash_of_the_first_batch(
    stream: Any, send: Any, new_topic: Any, checkpoint: str, run_query: Any
) -> None:
    topic = new_topic(1)
    send(topic, values(3))
    failures: list[int] = []
    kept = Kept()

    def fail_once(frame: Any, batch: int) -> None:
        rows = frame.collect()
        if rows and not failures:
            failures.append(batch)
            raise RuntimeError("stop here")
        kept.batches[batch] = rows

    def start() -> Any:
        frame = stream(subscribe=topic)
        return run_query(frame.writeStream.foreachBatch(fail_once).option("checkpointLocation", checkpoint))

    query = start()
    wait_until(
        lambda: Path(checkpoint, "commits", "0").exists() or not query.isActive, "the start", TIMEOUT_S
    )
    send(topic, values(4, 3))
    wait_until(lambda: not query.isActive, "the failure", TIMEOUT_S)
    assert failures
    send(topic, values(2, 7))
    again = start()
    wait_until(lambda: len(kept.rows) >= 6 or not again.isActive, "the rest", TIMEOUT_S)
    again.stop()
    assert kept.values() == names(6, 3)


def test_new_partitions_are_found_and_read_from_their_beginning(
    stream: Any, send: Any, new_topic: Any, broker: Any, checkpoint: str, run_query: Any
) -> None:
    topic = new_topic(1)
    send(topic, values(2))
    kept = Kept()
    frame = stream(subscribe=topic, startingOffsets="earliest")
    query = run_query(frame.writeStream.foreachBatch(kept).option("checkpointLocation", checkpoint))
    wait_until(lambda: len(kept.rows) == 2 or not query.isActive, "the first rows", TIMEOUT_S)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(30)
    send_fresh = Publisher(broker.bootstrap).send
    send_fresh(topic, [{**record, "partition": 2} for record in values(3, 2)])
    wait_until(lambda: len(kept.rows) == 5 or not query.isActive, "rows of a new partition", TIMEOUT_S)
    query.stop()
    assert kept.values() == names(5)


def test_progress_is_committed_as_a_group_and_read_back(
    stream: Any, send: Any, new_topic: Any, broker: Any, checkpoint: str, tmp_path: Path
) -> None:
    topic = new_topic(1)
    send(topic, values(9))
    group = f"{topic}-group"
    options = {"subscribe": topic, "kafka__group__id": group}
    run_available(stream(**options, startingOffsets="earliest"), Kept(), checkpoint)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
    try:
        assert consumer.committed([TopicPartition(topic, 0)], 30)[0].offset == 9
    finally:
        consumer.close()
    send(topic, values(3, 9))
    kept = Kept()
    run_available(stream(**options, startingOffsets="committed"), kept, str(tmp_path / "second"))
    assert kept.values() == names(3, 9)


def test_a_deleted_topic_ends_the_query_unless_loss_is_allowed(
    stream: Any, send: Any, new_topic: Any, broker: Any, tmp_path: Path
) -> None:
    kept_topic, gone = new_topic(1, prefix="del"), new_topic(1, prefix="del")
    pattern = f"{kept_topic}|{gone}"
    send(kept_topic, values(2))
    send(gone, values(2, 2))
    options = {"subscribePattern": pattern, "startingOffsets": "earliest"}
    for name in ("strict", "lax"):
        run_available(stream(**options), Kept(), str(tmp_path / name))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([gone])[gone].result(30)
    send(kept_topic, values(1, 4))
    kept = Kept()
    run_available(stream(**options, failOnDataLoss="false"), kept, str(tmp_path / "lax"))
    assert kept.values() == names(1, 4)
    with pytest.raises(Exception, match="failOnDataLoss"):
        run_available(stream(**options), Kept(), str(tmp_path / "strict"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "not valid in streaming"),
        ({"endingTimestamp": "1000"}, "not valid in streaming"),
        ({"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}, "must not be greater"),
        ({"startingOffsets": "committed"}, "kafka.group.id"),
        ({"startingOffsets": '{"other":{"0":1}}'}, "must have all partitions"),
    ],
)
def test_what_a_stream_cannot_have_is_refused(
    stream: Any, new_topic: Any, checkpoint: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        run_available(stream(subscribe=new_topic(), **options), Kept(), checkpoint)
