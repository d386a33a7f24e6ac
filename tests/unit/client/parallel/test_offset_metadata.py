"""Metadata of a commit: it contains finished offsets only, and all that fit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.parallel.offset_metadata import OffsetRange, body_bytes_max, certainly_fits, decode, encode

BASES = st.integers(0, 2**62)
LENGTHS = st.one_of(st.integers(1, 5), st.integers(1, 3_000))


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, list[OffsetRange]]:
    """A base and runs above it that never touch; the first may begin at the base."""
    base = draw(BASES)
    at = base
    runs = []
    for number, (gap, length) in enumerate(draw(st.lists(st.tuples(LENGTHS, LENGTHS), max_size=60))):
        start = at + gap - (number == 0)
        runs.append((start, start + length))
        at = start + length
    return base, runs


def offsets(runs: list[OffsetRange] | tuple[OffsetRange, ...]) -> set[int]:
    return {offset for start, end in runs for offset in range(start, end)}


@given(cases())
def test_metadata_that_fits_round_trips(case: tuple[int, list[OffsetRange]]) -> None:
    base, runs = case
    text, whole = encode(base, runs, 100_000)
    assert whole
    assert decode(base, text) == tuple(runs)


@given(cases(), st.integers(0, 200))
def test_metadata_respects_its_limit_and_contains_no_unfinished_offset(
    case: tuple[int, list[OffsetRange]], bytes_max: int
) -> None:
    base, runs = case
    text, whole = encode(base, runs, bytes_max)
    assert len(text.encode()) <= bytes_max
    decoded = offsets(decode(base, text))
    assert decoded <= offsets(runs)
    assert whole == (decoded == offsets(runs))


@given(cases(), st.integers(0, 200))
def test_the_bound_without_encoding_is_never_too_optimistic(
    case: tuple[int, list[OffsetRange]], bytes_max: int
) -> None:
    base, runs = case
    unfinished = max(0, len(runs) - 1)
    span = runs[-1][1] - base if runs else 0
    if certainly_fits(unfinished, span, bytes_max):
        assert encode(base, runs, bytes_max)[1]


@given(cases(), st.integers(1, 5))
def test_metadata_of_another_offset_is_ignored(case: tuple[int, list[OffsetRange]], moved: int) -> None:
    base, runs = case
    text, _ = encode(base, runs, 4096)
    assert decode(base + moved, text) == ()


@given(st.text(), BASES)
def test_metadata_of_other_programs_is_ignored(text: str, base: int) -> None:
    assert decode(base, text) == ()
    assert decode(base, f"ottla1r{text}") == ()


@pytest.mark.parametrize(
    "text", [None, "", "ottla1", "ottla1r", "ottla1x", "ottla1r====", "ottla1b\xff", "{}"]
)
def test_damaged_metadata_is_ignored(text: str | None) -> None:
    assert decode(7, text) == ()


@given(cases(), st.data())
def test_a_changed_character_is_detected(case: tuple[int, list[OffsetRange]], data: st.DataObject) -> None:
    base, runs = case
    text, _ = encode(base, runs, 4096)
    if text:
        at = data.draw(st.integers(0, len(text) - 2))
        other = data.draw(st.sampled_from("AZaz09-_").filter(lambda character: character != text[at]))
        found = decode(base, text[:at] + other + text[at + 1 :])
        # Only the letter of the kind lies outside the checksum, and there are two kinds.
        assert found == () or at == len("ottla1")


def test_scattered_offsets_need_a_bit_each_and_long_ranges_a_few_bytes() -> None:
    scattered = [(number, number + 1) for number in range(1, 20_000, 2)]
    text, whole = encode(0, scattered, 4096)
    assert whole
    assert len(text) < 20_000 / 8 * 4 / 3 + 20
    text, whole = encode(0, [(1, 5_000_000), (5_000_001, 9_000_000)], 4096)
    assert whole
    assert len(text) < 40


def test_offsets_that_do_not_fit_are_cut_off_at_the_end() -> None:
    scattered = [(number, number + 1) for number in range(1, 60_000, 2)]
    text, whole = encode(0, scattered, 4096)
    assert not whole
    decoded = decode(0, text)
    assert decoded == tuple(scattered[: len(decoded)])
    assert len(decoded) * 2 >= 8 * body_bytes_max(4096) - 2
