"""Which kernel runs, and that it was built where it can be."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.records import _reference, kernel

from .batch_cases import CASES, NOW_MS, Case

_kernel = pytest.importorskip("ottla.records._kernel")


@pytest.mark.parametrize(("value", "compiled"), [("1", "False"), ("0", "True"), ("", "True")])
def test_environment_chooses(value: str, compiled: str) -> None:
    code = "from ottla.records import kernel; print(kernel.COMPILED)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"OTTLA_PURE": value},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == compiled


def test_default_is_what_was_imported() -> None:
    expected = _kernel if kernel.COMPILED else _reference
    assert kernel.check_batch is expected.check_batch


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_same_on_every_odd_batch(case: Case) -> None:
    data = case.data(NOW_MS)
    for limit, zstd_allowed in ((1_000_000, True), (100, True), (1_000_000, False)):
        assert _kernel.check_batch(data, limit, zstd_allowed) == _reference.check_batch(
            data, limit, zstd_allowed
        )


def test_walk_refuses_places_outside_the_buffer() -> None:
    for start, end in ((0, 11), (-1, 5), (6, 5)):
        with pytest.raises(ValueError, match="outside"):
            _kernel.walk(bytes(10), start, end, 1, 0, strict=True)
