"""The session that the Spark tests share."""

from __future__ import annotations

from typing import Any


def test_a_job_runs(spark: Any) -> None:
    assert spark.range(10).count() == 10
