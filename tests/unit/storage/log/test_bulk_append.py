"""Bulk appends leave exactly the files that single appends leave."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.base.files import OsDisk
from ottla.broker.produce.bulk_produce import shape_of
from ottla.broker.produce.bulk_reference import scan_bulk
from ottla.records.validation import BatchRules, ValidBatch
from ottla.storage.log.bulk_append import BulkAppend
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.wire.frames import request_frame
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.produce import SingleResponse
from tests.support.logs import NOW_MS, append, batch, open_at, valid

CONFIG = LogConfig(index_interval_bytes=300)
RULES = BatchRules(max_message_bytes=1 << 30, timestamp_after_max_ms=1 << 60)


def frame_of(made: ValidBatch) -> bytes:
    data = PartitionProduceData(index=0, records=bytes(made.data))
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    return request_frame(request, 9, 1, "c")


def append_in_bulk(log: Log, batches: list[ValidBatch]) -> None:
    limits = log.bulk_limits(0, RULES, NOW_MS)
    assert limits is not None
    frames = [frame_of(made) for made in batches]
    shape = shape_of(memoryview(frames[0])[4:], memoryview(batches[0].data), 9)
    assert shape is not None
    response = SingleResponse(9, b"t")
    data = memoryview(bytearray(b"".join(frames)))
    template = response.encode(0, 0, 0, -1, 0)
    found = scan_bulk(data, 0, len(data), shape, True, template, response.base_offset_at, limits)
    assert found is not None
    assert found[1] == len(batches)
    log.append_bulk(BulkAppend._make(found[2:8]))
    job = log.take_staged()
    assert job is not None
    job.run()
    log.written(job, NOW_MS)


def files_of(log: Log, directory: Path) -> dict[str, bytes]:
    log.high_watermark = log.log_end_offset
    log.close(NOW_MS)
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if "index" in path.name or path.suffix == ".log"
    }


def test_bulk_appends_leave_the_files_that_single_appends_leave(tmp_path: Path) -> None:
    rng = random.Random(7)
    made = [
        batch(rng.randint(1, 3), value=bytes(rng.randint(0, 200)), time_ms=NOW_MS + rng.randint(0, 500))
        for _ in range(120)
    ]
    disk = OsDisk()
    one_by_one = open_at(disk, f"{tmp_path}/a/topic-0", CONFIG)
    append(one_by_one, *[valid(bytes(each.data)) for each in made])
    in_bulk = open_at(disk, f"{tmp_path}/b/topic-0", CONFIG)
    append(in_bulk, valid(bytes(made[0].data)))
    at = 1
    while at < len(made):
        count = rng.randint(1, 20)
        append_in_bulk(in_bulk, made[at : at + count])
        at += count

    expected = files_of(one_by_one, tmp_path / "a" / "topic-0")

    assert files_of(in_bulk, tmp_path / "b" / "topic-0") == expected
    assert len(expected["00000000000000000000.index"]) > 8 * 10
