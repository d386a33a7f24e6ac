"""Charts: coordinates within the box, and no text that is not escaped."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from ottla.console.presentation.charts import bars, sparkline


@given(st.lists(st.floats(0, 1e12), max_size=50))
def test_a_sparkline_stays_in_its_box(values: list[float]) -> None:
    drawn = sparkline(values, 100, 20)
    found = re.search(r'polyline class="spark-line" points="([^"]*)"', drawn)
    assert found is not None
    for pair in found[1].split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= 100
        assert 0 <= y <= 20


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=50))
def test_bars_stay_in_their_box(values: list[float]) -> None:
    drawn = bars(values, 100, 20)
    heights = [float(each) for each in re.findall(r' height="([0-9.]+)"', drawn)]
    assert len(heights) == len(values)
    assert max(heights) <= 20
    assert all((height > 0) == (value > 0) for height, value in zip(heights, values, strict=True))


def test_labels_and_titles_are_escaped() -> None:
    drawn = bars([1.0], label='"><script>', titles=["<b>"])
    assert "<script>" not in drawn
    assert "<b>" not in drawn
    assert bars([]) == ""
