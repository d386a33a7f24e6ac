"""The garbage collector's view of a process of Spark."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from ottla.spark import workers
from ottla.spark.workers import freeze_imports


@pytest.fixture(autouse=True)
def thawed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(workers, "_frozen_modules", 0)
    yield
    gc.unfreeze()


def test_what_is_imported_is_out_of_sight() -> None:
    freeze_imports()
    assert gc.get_freeze_count() > 10_000
    assert len(gc.get_objects()) < gc.get_freeze_count()


def test_what_is_imported_later_is_out_of_sight_after_the_next_task(monkeypatch: pytest.MonkeyPatch) -> None:
    freeze_imports()
    late = ModuleType("imported_late")
    tables = late.__dict__["tables"] = [[number] for number in range(5_000)]
    monkeypatch.setitem(sys.modules, late.__name__, late)
    assert any(each is tables for each in gc.get_objects())
    freeze_imports()
    assert not any(each is tables for each in gc.get_objects())


def test_a_task_that_imports_nothing_freezes_nothing() -> None:
    freeze_imports()
    kept = [[number] for number in range(5_000)]
    frozen = gc.get_freeze_count()
    freeze_imports()
    assert gc.get_freeze_count() <= frozen
    assert len(kept) == 5_000
