"""Repeated elements of requests that describe something.

Kafka responds to each repetition. A repetition of a few bytes can add much to the response, all members of a group for
example, so a small request could have a response of gigabytes. Therefore an element is described a few times at most.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")
REPETITIONS_MAX: Final = 8
"""How often one element of a request is described."""


def limited(elements: Iterable[T], key: Callable[[T], Hashable] = lambda each: each) -> Iterator[T]:
    """The elements in their order, without those that have occurred `REPETITIONS_MAX` times before."""
    counts: dict[Hashable, int] = {}
    for element in elements:
        name = key(element)
        count = counts[name] = counts.get(name, 0) + 1
        if count <= REPETITIONS_MAX:
            yield element
