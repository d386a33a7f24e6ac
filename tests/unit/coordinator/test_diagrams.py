"""docs/STATE_MACHINES.md shows the current transition tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ottla.coordinator.group.classic.transitions import TRANSITIONS

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "STATE_MACHINES.md"


def test_the_page_of_state_machines_is_up_to_date() -> None:
    command = [sys.executable, "tools/diagrams.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == 0, "run python tools/diagrams.py"


def test_every_move_of_a_table_is_drawn_and_no_other() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Classic group\n")[2].partition("\n## ")[0]
    drawn = set(re.findall(r"^    (\w+) --> (\w+):", section, re.MULTILINE))
    assert drawn == {
        (before.value, after.value)
        for before in TRANSITIONS.states
        for after in TRANSITIONS.states
        if TRANSITIONS.allows(before, after)
    }
