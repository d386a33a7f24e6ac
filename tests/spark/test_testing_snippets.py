"""The Spark snippet of docs/TESTING.md passes as a test of a user."""

from __future__ import annotations

from pathlib import Path

from tests.integration.fixtures.test_plugin import NEEDS_SPARK, run_pytest, snippets


def test_the_spark_snippet_passes(tmp_path: Path) -> None:
    (code,) = [code for heading, code in snippets() if heading == NEEDS_SPARK]
    (tmp_path / "test_snippet.py").write_text(code)
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
