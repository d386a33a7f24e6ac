"""The demo plays its matches to the end, and plays again over the data of the first time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

MATCHES = ("Canada vs USA", "France vs Spain", "Japan vs Brazil")
PATIENCE_S = 400

pytestmark = pytest.mark.skipif(
    shutil.which("java") is None and "OTTLA_REQUIRE_SPARK" not in os.environ, reason="Spark needs Java"
)


@pytest.mark.slow
def test_the_demo_shows_every_match_to_its_end_in_both_groups_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path), "--speed", "400"]
    finals = []
    for _ in range(2):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        lines = ran.stdout.splitlines()
        for device in ("mobile", "computer"):
            shown = [line for line in lines if line.startswith(f"{device:>8}: ")]
            for match in MATCHES:
                of_match = [line for line in shown if f": {match}: " in line]
                assert " final, " in of_match[-1], ran.stdout
                assert of_match.count(of_match[-1]) == 1, "shown once"
        finals.append({line.partition(": ")[2] for line in lines if " final, " in line})
        assert "mobile-2: " in ran.stdout, "a second mobile came"
        assert not [noise for noise in ("Traceback", "ERROR") if noise in ran.stdout + ran.stderr]
    assert finals[0] == finals[1], "the same seed plays the same matches"
    assert len(finals[0]) == len(MATCHES)


def test_without_java_the_demo_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "demo", "--data", str(tmp_path / "data")]
    environment = {**os.environ, "JAVA_HOME": str(tmp_path)}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert ran.returncode == 2
    assert "Spark needs Java 17 or newer" in " ".join(ran.stderr.split())
    assert not (tmp_path / "data").exists(), "nothing was started"
