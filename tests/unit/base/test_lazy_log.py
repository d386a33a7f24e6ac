"""A logger without an import of structlog until it is used."""

from __future__ import annotations

import subprocess
import sys

from structlog.testing import capture_logs

from ottla.base.lazy_log import LazyLogger


def test_lines_are_those_of_structlog() -> None:
    with capture_logs() as lines:
        LazyLogger().info("one", value=1)
        LazyLogger().warning("two")
    assert lines == [
        {"event": "one", "log_level": "info", "value": 1},
        {"event": "two", "log_level": "warning"},
    ]


def test_the_data_source_of_spark_is_imported_without_structlog() -> None:
    code = "import sys, ottla.spark.data_source; sys.exit('structlog' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
