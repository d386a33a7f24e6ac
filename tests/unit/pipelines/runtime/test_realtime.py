"""What real-time mode needs, checked before Spark starts."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ottla.base.errors import LocalError
from ottla.pipelines import Pipeline, table, topic
from ottla.pipelines.runtime.realtime import MASTER, SHUFFLE, check_slots, local_slots


def passes(frame: Any) -> Any:
    return frame


@pytest.fixture
def pipeline() -> Pipeline:
    made = Pipeline("p")
    made.flow(reads=topic("in"), writes=topic("a"), mode="update", name="one")(passes)
    made.flow(reads=topic("in"), writes=topic("b"), mode="update", name="two")(passes)
    made.flow(reads=topic("a"), writes=table("t"), name="three")(passes)
    return made


@pytest.mark.parametrize(
    ("master", "slots"),
    [
        ("local", 1),
        ("local[4]", 4),
        ("local[4,2]", 4),
        ("local[*]", os.cpu_count()),
        ("spark://h:7077", None),
    ],
)
def test_slots_of_a_master(master: str, slots: int | None) -> None:
    assert local_slots(master) == slots


def test_every_partition_and_every_shuffle_needs_a_slot(pipeline: Pipeline) -> None:
    """Two flows into topics, each with three partitions and two shuffles, and one slot for the rest."""
    check_slots(pipeline, "local[11]", {}, {"in": 3})
    with pytest.raises(LocalError, match=r"needs 11 task slots, and local\[10\] has 10"):
        check_slots(pipeline, "local[10]", {}, {"in": 3})


def test_shuffles_are_counted_as_set(pipeline: Pipeline) -> None:
    with pytest.raises(LocalError, match="needs 17 task slots"):
        check_slots(pipeline, "local[16]", {SHUFFLE: "5"}, {"in": 3})


def test_the_default_master_has_enough(pipeline: Pipeline) -> None:
    check_slots(pipeline, MASTER, {}, {"in": 12})


def test_a_cluster_is_not_judged(pipeline: Pipeline) -> None:
    check_slots(pipeline, "spark://host:7077", {}, {"in": 1_000})


def test_whole_results_are_refused() -> None:
    made = Pipeline("p")
    made.flow(reads=topic("in"), writes=topic("a"), mode="complete")(passes)
    with pytest.raises(LocalError, match='mode="update"'):
        check_slots(made, MASTER, {}, {"in": 1})
