"""The data source in a session: found by itself, or registered by hand."""

from __future__ import annotations

from typing import Any

import pytest

import ottla.spark

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "columns": "offset, value as text"}
"""The schema is told without asking the cluster."""


def test_a_new_session_finds_the_source_by_itself(spark: Any) -> None:
    frame = spark.newSession().read.format("ottla").options(**NOWHERE).load()
    assert frame.dtypes == [("offset", "bigint"), ("text", "binary")]
    with pytest.raises(Exception, match="ottla_unknown"):
        spark.newSession().read.format("ottla_unknown").options(**NOWHERE).load()


def test_a_session_in_which_it_was_registered(spark: Any) -> None:
    session = spark.newSession()
    ottla.spark.register(session)
    assert session.read.format("ottla").options(**NOWHERE).load().columns == ["offset", "text"]
