"""The compiled scan for bulk appends equals its plain-Python reference, on valid and on damaged bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.produce import bulk_reference
from ottla.broker.produce.bulk_produce import shape_of
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.storage.log.bulk_append import AppendLimits
from ottla.wire.frames import request_frame
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.wire.produce import SingleResponse

kernel = pytest.importorskip("ottla.broker.produce._bulk", reason="the kernel is not compiled")

NOW = 1_760_000_000_000
VERSIONS = st.sampled_from([3, 7, 9, 11, 12])


def frame_of(version: int, number: int, batch: bytes, client: str = "c") -> bytes:
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
        ],
    )
    return request_frame(request, version, number, client)


records = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=8),
        st.none() | st.binary(max_size=300),
        st.just(()),
        st.integers(NOW - 1000, NOW + 1000) | st.just(-1),
    ),
    min_size=1,
    max_size=4,
)
batches = st.builds(
    lambda made, codec, producer: build_batch(
        made, codec=codec, producer_id=producer, producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
    ),
    records,
    st.sampled_from([Codec.NONE] * 9 + [Codec.GZIP]),
    st.sampled_from([-1] * 9 + [5]),
)  # fmt: skip
limits_of_logs = st.builds(
    lambda offset, room, since, keys: AppendLimits(
        offset, offset + room, 100 + room * 300, 7, NOW - 1200, NOW + 1200, since, 200, 900, keys,
    ),
    st.integers(0, 1 << 40), st.integers(0, 40), st.integers(0, 400), st.booleans(),
)  # fmt: skip


def scan_both(
    version: int, first: bytes, batch: bytes, data: bytes, limits: AppendLimits
) -> tuple[object, object]:
    shape = shape_of(memoryview(first)[4:], memoryview(batch), version)
    assert shape is not None
    response = SingleResponse(version, b"t")
    template = response.encode(0, 0, 0, -1, 3)
    view = memoryview(bytearray(data))
    arguments = (view, 0, len(data), shape, version >= 9, template, response.base_offset_at, limits)
    return kernel.scan_bulk(*arguments), bulk_reference.scan_bulk(*arguments)


@given(VERSIONS, st.lists(batches, min_size=1, max_size=12), limits_of_logs, st.integers(0, 30))
def test_sound_frames(version: int, made: list[bytes], limits: AppendLimits, cut: int) -> None:
    frames = [frame_of(version, number, batch) for number, batch in enumerate(made)]
    data = b"".join(frames)
    compiled, reference = scan_both(version, frames[0], made[0], data[: len(data) - cut], limits)
    assert compiled == reference


@given(
    VERSIONS,
    st.lists(batches, min_size=1, max_size=4),
    limits_of_logs,
    st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_damaged_frames(
    version: int, made: list[bytes], limits: AppendLimits, damage: list[tuple[int, int]]
) -> None:
    frames = [frame_of(version, number, batch) for number, batch in enumerate(made)]
    data = bytearray(b"".join(frames))
    for at, byte in damage:
        data[at % len(data)] = byte
    compiled, reference = scan_both(version, frames[0], made[0], bytes(data), limits)
    assert compiled == reference


def test_a_scan_ends_at_a_frame_of_another_shape() -> None:
    batch = build_batch([NewRecord(b"k", b"v", (), NOW)])
    frames = [frame_of(9, 1, batch), frame_of(9, 2, batch), frame_of(9, 3, batch, client="other")]
    limits = AppendLimits(10, 100, 10_000, 7, NOW - 1, NOW + 1, 0, 4096, 1 << 20, False)
    compiled, reference = scan_both(9, frames[0], batch, b"".join(frames), limits)
    assert compiled == reference
    assert isinstance(compiled, tuple)
    assert compiled[0] == len(frames[0]) * 2
    assert compiled[1] == 2
    assert compiled[3] == 12


def test_a_scan_ends_at_a_batch_with_a_wrong_crc() -> None:
    """Each byte that the CRC covers, and the CRC itself, of the second of two batches."""
    batch = build_batch([NewRecord(b"k", b"value", (), NOW)])
    first = frame_of(9, 1, batch)
    limits = AppendLimits(10, 100, 10_000, 7, NOW - 1, NOW + 1, 0, 4096, 1 << 20, False)
    start = len(first) + first.index(batch)
    for at in range(17, len(batch)):
        data = bytearray(first + frame_of(9, 2, batch))
        data[start + at] ^= 0x01
        for found in scan_both(9, first, batch, bytes(data), limits):
            assert isinstance(found, tuple), at
            assert found[:2] == (len(first), 1), f"byte {at} of the batch"
