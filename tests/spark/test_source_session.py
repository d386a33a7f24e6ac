"""The data source in a session: found by itself, or registered by hand."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import ottla.spark

NOWHERE = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "columns": "offset, value as text"}
"""Options for a cluster that does not exist: the schema needs no request."""


def test_a_new_session_finds_the_source_by_itself(spark: Any) -> None:
    frame = spark.newSession().read.format("ottla").options(**NOWHERE).load()
    assert frame.dtypes == [("offset", "bigint"), ("text", "binary")]
    with pytest.raises(Exception, match="ottla_unknown"):
        spark.newSession().read.format("ottla_unknown").options(**NOWHERE).load()


def test_a_session_in_which_it_was_registered(spark: Any) -> None:
    session = spark.newSession()
    ottla.spark.register(session)
    assert session.read.format("ottla").options(**NOWHERE).load().columns == ["offset", "text"]


def test_a_thread_in_which_it_was_registered_may_write_a_stream(spark: Any, checkpoint: str) -> None:
    def start() -> None:
        ottla.spark.register(spark)
        writer = (
            spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value").writeStream
        )
        options = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "checkpointLocation": checkpoint}
        writer.format("ottla").options(**options).start().stop()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(start).result(180)
