"""The text format, as Prometheus's own parser reads it."""

from __future__ import annotations

import math

from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.metrics.text import SAMPLES_PER_PIECE, family, labels, number


def parsed(text: str) -> list[tuple[str, dict[str, str], float]]:
    return [
        (sample.name, sample.labels, sample.value)
        for each in text_string_to_metric_families(text)
        for sample in each.samples
    ]


def test_hostile_labels_survive() -> None:
    value = 'a"b\\c\nd{}e,="'
    text = "".join(family("name", "gauge", "Help.", [(labels(topic=value, partition=3), 1.5)]))
    assert parsed(text) == [("name", {"topic": value, "partition": "3"}, 1.5)]


def test_numbers() -> None:
    assert [number(each) for each in (3, True, 0.25, math.inf, -math.inf, math.nan)] == [
        "3",
        "1",
        "0.25",
        "+Inf",
        "-Inf",
        "NaN",
    ]


def test_a_family_without_samples_is_left_out() -> None:
    assert list(family("name", "gauge", "Help.", [])) == []


def test_a_large_family_is_written_in_pieces() -> None:
    count = 3 * SAMPLES_PER_PIECE + 7
    pieces = list(family("name", "counter", "Help.", ((labels(n=n), n) for n in range(count))))
    assert max(piece.count("\n") for piece in pieces) <= SAMPLES_PER_PIECE + 2
    assert len(parsed("".join(pieces))) == count


def test_an_exact_multiple_of_the_piece_loses_nothing() -> None:
    pieces = list(family("name", "gauge", "Help.", ((labels(n=n), n) for n in range(SAMPLES_PER_PIECE))))
    assert len(parsed("".join(pieces))) == SAMPLES_PER_PIECE
