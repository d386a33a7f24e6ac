"""The mutants apply to the current code; `make mutants` checks that each is caught."""

from __future__ import annotations

import ast

import pytest

from tests.mutants.__main__ import CORES, ROOT, SIM, SIM_CLUSTER
from tests.mutants.mutant import DoesNotApply, Mutant, load_all

MUTANTS = load_all()
EXAMPLE = "def one():\n    return 1\n\n\ndef two():\n    if x:\n        return 1\n"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_applies(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()

    mutated = mutant.mutate(source)

    assert mutated != source
    if mutant.file.endswith(".py"):
        ast.parse(mutated)


def test_a_mutant_has_a_rule_and_tests_that_exist() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 39
    for mutant in MUTANTS:
        assert mutant.rule
        assert mutant.tests
        for tests in mutant.tests:
            for path in tests.split():
                assert path in (SIM, SIM_CLUSTER, *CORES) or (ROOT / path.partition("::")[0]).exists(), (
                    f"{mutant.name}: {path}"
                )


def test_lines_that_occur_twice_need_the_name_of_their_function() -> None:
    ambiguous = Mutant("m", "r", "f.py", "return 1", "return 2", ())
    with pytest.raises(DoesNotApply):
        ambiguous.mutate(EXAMPLE)

    named = Mutant("m", "r", "f.py", "return 1", "return 2", (), inside="two")
    assert named.mutate(EXAMPLE) == EXAMPLE[: EXAMPLE.rindex("1")] + "2\n"


def test_missing_lines_do_not_apply() -> None:
    with pytest.raises(DoesNotApply):
        Mutant("m", "r", "f.py", "return 3", "return 2", ()).mutate(EXAMPLE)


def test_the_end_of_a_line_may_be_left_open() -> None:
    assert Mutant("m", "r", "f.py", "if ...", "if y:", ()).mutate(EXAMPLE) == EXAMPLE.replace("if x", "if y")
