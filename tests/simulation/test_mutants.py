"""The mutants fit the code as it is; whether they are caught is asked by `make mutants`."""

from __future__ import annotations

import subprocess

import pytest

from tests.mutants.__main__ import ROOT, SIM
from tests.mutants.mutant import Mutant, load_all

MUTANTS = load_all()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies(mutant: Mutant) -> None:
    try:
        mutant.apply(ROOT, check=True)
    except subprocess.CalledProcessError as error:
        pytest.fail(f"{mutant.name} does not fit any more: {error.stderr}")


def test_a_mutant_has_a_rule_and_judges_that_exist() -> None:
    assert len(MUTANTS) >= 15
    for mutant in MUTANTS:
        assert mutant.rule
        assert mutant.judges
        for judge in mutant.judges:
            assert judge == SIM or (ROOT / judge).exists(), f"{mutant.name}: {judge}"
