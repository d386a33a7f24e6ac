"""The compiled scan for raw appends equals its plain-Python reference, on valid and on damaged bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import native
from ottla.records.builder import NewRecord, build_batch
from ottla.storage.log import raw_append, raw_reference
from ottla.storage.log.raw_reference import RawLimits

kernel = pytest.importorskip("ottla.storage.log._raw", reason="the kernel is not compiled")

NOW = 1_760_000_000_000

batches = st.tuples(
    st.integers(1, 3), st.integers(0, 300), st.sampled_from([4] * 9 + [5, -1]), st.integers(0, 2),
    st.sampled_from([-1, -1, 8]), st.integers(NOW - 100, NOW + 1000) | st.just(-1),
)  # fmt: skip
limits = st.builds(
    lambda offset, room, since, interval: RawLimits(
        offset, offset + room, 100 + room * 90, 4, NOW + 900, since, interval
    ),
    st.integers(0, 20), st.integers(0, 60), st.integers(0, 400), st.integers(0, 300),
)  # fmt: skip


def encode(made: list[tuple[int, int, int, int, int, int]], offset: int) -> bytes:
    data = b""
    for count, size, epoch, gap, producer, time_ms in made:
        offset += gap
        known = producer >= 0
        data += build_batch(
            [NewRecord(None, bytes(size), timestamp=time_ms)] * count,
            base_offset=offset,
            leader_epoch=epoch,
            producer_id=producer,
            producer_epoch=0 if known else -1,
            base_sequence=0 if known else -1,
        )
        offset += count
    return data


@given(st.lists(batches, max_size=12), limits, st.integers(0, 1), st.integers(0, 80))
def test_batches(
    made: list[tuple[int, int, int, int, int, int]], within: RawLimits, behind: int, torn: int
) -> None:
    data = encode(made, max(0, within.next_offset - behind))
    view = memoryview(data[: max(0, len(data) - torn)])
    assert kernel.scan_raw(view, 0, within) == raw_reference.scan_raw(view, 0, within)


@given(st.lists(batches, min_size=1, max_size=6), limits, st.data())
def test_damaged_batches(
    made: list[tuple[int, int, int, int, int, int]], within: RawLimits, chosen: st.DataObject
) -> None:
    data = bytearray(encode(made, within.next_offset))
    position = chosen.draw(st.integers(0, len(data) - 1))
    data[position] ^= chosen.draw(st.integers(1, 255))
    start = chosen.draw(st.sampled_from([0, 0, 5]))
    view = memoryview(data)
    assert kernel.scan_raw(view, start, within) == raw_reference.scan_raw(view, start, within)


def test_the_kernel_is_used_if_it_is_compiled() -> None:
    assert raw_append.scan_raw is (kernel.scan_raw if native.WANTED else raw_reference.scan_raw)
