"""A run of batches leaves exactly the files that appending them one by one leaves."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.base.files import OsDisk
from ottla.broker.produce.run_produce import shape_of
from ottla.broker.produce.run_reference import scan_run
from ottla.records.validation import ValidBatch
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log.staged_run import StagedRun
from ottla.wire.frames import request_frame
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.produce import SingleResponse
from tests.support.logs import NOW_MS, append, batch, open_at, valid

CONFIG = LogConfig(index_interval_bytes=300)
FAR = 1 << 60


def frame_of(made: ValidBatch) -> bytes:
    data = PartitionProduceData(index=0, records=bytes(made.data))
    request = ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[data])])
    return request_frame(request, 9, 1, "c")


def append_as_run(log: Log, batches: list[ValidBatch]) -> None:
    room = log.run_room(0)
    assert room is not None
    last_offset, bytes_left, latest, since_entry, interval = room
    frames = [frame_of(made) for made in batches]
    shape = shape_of(memoryview(frames[0])[4:], memoryview(batches[0].data), 9)
    assert shape is not None
    response = SingleResponse(9, b"t")
    data = memoryview(bytearray(b"".join(frames)))
    template = response.encode(0, 0, 0, -1, 0)
    found = scan_run(
        data, 0, len(data), shape, True, template, response.base_offset_at,
        (log.log_end_offset, last_offset, bytes_left, 0, -FAR, min(latest, FAR), since_entry, interval, FAR, False),
    )  # fmt: skip
    assert found is not None
    assert found[1] == len(batches)
    log.append_run(StagedRun._make(found[2:8]))
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


def test_a_run_leaves_the_files_that_single_appends_leave(tmp_path: Path) -> None:
    rng = random.Random(7)
    made = [
        batch(rng.randint(1, 3), value=bytes(rng.randint(0, 200)), time_ms=NOW_MS + rng.randint(0, 500))
        for _ in range(120)
    ]
    disk = OsDisk()
    one_by_one = open_at(disk, f"{tmp_path}/a/topic-0", CONFIG)
    append(one_by_one, *[valid(bytes(each.data)) for each in made])
    in_runs = open_at(disk, f"{tmp_path}/b/topic-0", CONFIG)
    append(in_runs, valid(bytes(made[0].data)))
    at = 1
    while at < len(made):
        count = rng.randint(1, 20)
        append_as_run(in_runs, made[at : at + count])
        at += count

    expected = files_of(one_by_one, tmp_path / "a" / "topic-0")

    assert files_of(in_runs, tmp_path / "b" / "topic-0") == expected
    assert len(expected["00000000000000000000.index"]) > 8 * 10
