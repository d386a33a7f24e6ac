"""The demo plays, and plays again over the data of the first time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.mission.test_scoreboard import EVENTS

MATCHES = ("Canada vs USA", "France vs Spain", "Japan vs Brazil")


@pytest.mark.slow
def test_the_demo_shows_every_match_once_in_both_groups_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path), "--speed", "0.1"]
    for _ in range(2):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        for device in ("mobile", "computer"):
            for match in MATCHES:
                marker = f"{device}: {match}: "
                shown = [line.partition(marker)[2] for line in ran.stdout.splitlines() if marker in line]
                assert shown == [event.decode() for event in EVENTS], ran.stdout
        assert "mobile-2: " in ran.stdout, "a second mobile came"
