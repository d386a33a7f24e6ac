from __future__ import annotations

from ottla.storage.cleaning.cleaner_map import OffsetMap


def test_the_last_offset_of_a_key_is_found_after_growing() -> None:
    offsets = OffsetMap(1 << 20)
    for number in range(5_000):
        assert offsets.put(b"%d" % (number % 3_000), number)
    assert len(offsets) == 3_000
    for number in range(3_000):
        assert offsets.get(b"%d" % number) == (number + 3_000 if number < 2_000 else number)
    assert offsets.get(b"unseen") == -1


def test_it_stays_below_its_limit_and_reports_when_it_is_full() -> None:
    offsets = OffsetMap(24 * 3_000)
    taken = 0
    while offsets.put(b"%d" % taken, taken):
        taken += 1
    assert offsets.is_full
    assert taken == offsets.capacity == len(offsets)
    assert offsets.size_bytes <= 24 * 3_000
    assert taken > 3_000 * 0.45  # and uses most of it: growing takes a third, the free slots a quarter
    assert offsets.put(b"0", 99)  # a known key always fits
    assert offsets.get(b"0") == 99
    assert offsets.get(b"%d" % taken) == -1


def test_memory_is_not_paid_in_advance() -> None:
    assert OffsetMap(128 << 20).size_bytes < 100_000


def test_even_the_smallest_map_takes_a_key() -> None:
    offsets = OffsetMap(1)
    assert offsets.put(b"a", 1)
    assert not offsets.put(b"b", 2)


def test_the_empty_key_is_a_key() -> None:
    offsets = OffsetMap(1 << 16)
    offsets.put(b"", 5)
    assert offsets.get(b"") == 5
