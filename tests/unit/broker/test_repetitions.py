"""Repeated elements of requests."""

from __future__ import annotations

from ottla.broker.repetitions import REPETITIONS_MAX, limited


def test_elements_keep_their_order_and_their_first_repetitions() -> None:
    assert list(limited("abab")) == list("abab")
    assert list(limited(["a"] * 1000 + ["b"])) == ["a"] * REPETITIONS_MAX + ["b"]


def test_elements_are_the_same_if_their_keys_are() -> None:
    assert list(limited(range(100), key=lambda number: number % 2)) == list(range(2 * REPETITIONS_MAX))
