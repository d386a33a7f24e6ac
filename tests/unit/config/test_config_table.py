"""docs/CONFIG.md says what the declarations say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_page_of_settings_is_up_to_date() -> None:
    command = [sys.executable, "tools/config_table.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, check=False)
    assert done.returncode == 0, "run python tools/config_table.py"
