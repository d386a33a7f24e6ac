"""Numbers, times and hostile text as the pages show them."""

from __future__ import annotations

import pytest

from ottla.console.presentation import formats


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "\u2013"), (0, "0 s"), (-1, "0 s"), (0.25, "250 ms"), (59, "59 s"), (61, "1 min 1 s"),
     (3_700, "1 h 1 min"), (90_000, "1 d 1 h")],
)  # fmt: skip
def test_durations(value: float | None, text: str) -> None:
    assert formats.duration(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "\u2013"), (0, "0 B"), (999, "999 B"), (1_500, "1.5 KB"), (250_000, "250 KB"), (3.2e9, "3.2 GB"),
     (5e18, "5000 PB")],
)  # fmt: skip
def test_sizes(value: float | None, text: str) -> None:
    assert formats.size(value) == text


def test_rates_have_few_digits() -> None:
    assert [formats.rate(each) for each in (None, 0, 0.26, 9.94, 12.6, 12_345.6)] == [
        "\u2013", "0", "0.3", "9.9", "13", "12,346",
    ]  # fmt: skip


def test_times_are_utc_and_any_number_is_accepted() -> None:
    assert formats.moment(1_700_000_000_123) == "2023-11-14 22:13:20.123"
    assert formats.clock(1_700_000_000_123) == "22:13:20"
    assert formats.moment(-1) == formats.clock(None) == "\u2013"
    assert formats.moment(1 << 62)
    assert formats.ago(1_000, 62_000) == "1 min 1 s ago"


def test_invisible_characters_are_shown_as_escapes() -> None:
    assert formats.visible("plain text") == "plain text"
    assert formats.visible("a\u202eb") == "a\\u202eb"
    assert formats.visible("\x00\x1b[31m") == "\\u0000\\u001b[31m"
    assert formats.visible("\u2066x\u2069\ufeff") == "\\u2066x\\u2069\\ufeff"
    assert formats.visible("\U000e0041") == "\\U000e0041"
    assert formats.visible("\ud800") == "\\ud800"
    assert formats.visible("Füße\n\tñ 日本 🎉") == "Füße\n\tñ 日本 🎉"
