"""The example project of the test fixtures, and their faults, on Apache Kafka: `--ottla-bootstrap`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.peers import KafkaPeer
from tests.integration.fixtures.test_plugin import ROOT, run_pytest

pytestmark = pytest.mark.compat


def test_the_example_project_passes_on_apache_kafka(kafka: KafkaPeer, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "examples" / "tested_application", folder, ignore=ignored)
    done = run_pytest(folder, "--ottla-bootstrap", kafka.bootstrap)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed, 1 skipped" in done.stdout
