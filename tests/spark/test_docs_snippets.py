"""Every snippet of docs/SPARK.md, and the one on Spark in README.md, runs against a broker that has its topics.

A fenced block in Python is executed with `spark`, `checkpoint` (a folder of its own), `reader` (of the topic `orders`),
`frame` (its rows) and `stream` (its stream) at hand. Data frames that it makes and leaves are run, streams until they
have read what is there: a snippet that only plans proves nothing. Queries that it leaves running must have worked
off everything, and are stopped. A block in a language that is not run must be named in `SHOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.clients import TIMEOUT_S, Publisher
from tests.support.snippets import ROOT, blocks

DOCUMENT = Path(__file__).parents[2] / "docs" / "SPARK.md"
ADDRESSES = re.compile(r"(?:localhost|127\.0\.0\.1):9092")
TOPICS = re.compile(r"""(?:subscribe|topic)["'],\s*["']([\w.,-]+)["']""")
SHOWN = {"sh", "text", "json", "ini"}
"""Languages of blocks that are there to be seen, not to be run."""
ORDERS = [
    {"key": f"customer {number % 2}", "value": f'{{"id": {number}, "item": "ball", "price": 2.5}}'}
    for number in range(10)
]


@dataclass(frozen=True)
class Snippet:
    line: int
    language: str
    code: str


def snippets() -> Iterator[Snippet]:
    lines = DOCUMENT.read_text().splitlines()
    start: int | None = None
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            continue
        if start is None:
            start = number
        else:
            yield Snippet(start + 1, lines[start][3:].strip(), "\n".join(lines[start + 1 : number]))
            start = None
    assert start is None, f"the block that begins in line {start} of {DOCUMENT.name} has no end"


ALL = list(snippets())
README = [
    Snippet(block.line, f"README.md:{block.line}", block.text)
    for block in blocks(ROOT / "README.md")
    if block.language == "python" and "pyspark" in block.text
]
IN_PYTHON = [*(snippet for snippet in ALL if snippet.language == "python"), *README]


def test_every_block_is_run_or_known_to_be_shown() -> None:
    assert IN_PYTHON
    strange = {snippet.language for snippet in ALL} - {"python"} - SHOWN
    assert not strange, "name the language of a block, or run it"


@pytest.fixture(scope="module")
def orders(broker: Any) -> str:
    """The broker's address, with the topics of the document on it."""
    names = {
        name for snippet in IN_PYTHON for found in TOPICS.findall(snippet.code) for name in found.split(",")
    }
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in names | {"orders"}]).values():
        try:
            future.result(TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    Publisher(broker.bootstrap).send("orders", ORDERS)
    return str(broker.bootstrap)


@pytest.mark.parametrize("snippet", [pytest.param(one, id=f"{one.language}-{one.line}") for one in IN_PYTHON])
def test_the_snippet_runs(
    snippet: Snippet, orders: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = given(spark, orders, tmp_path)
    before = dict(names)
    code = compile(ADDRESSES.sub(orders, snippet.code), f"{DOCUMENT.name}:{snippet.line}", "exec")
    try:
        exec(code, names)  # noqa: S102 - the document's own words
        made = [value for name, value in names.items() if before.get(name) is not value]
        run_frames(made, tmp_path)
        for query in spark.streams.active:
            query.processAllAvailable()
            assert query.exception() is None
    finally:
        for query in spark.streams.active:
            query.stop()


def given(spark: Any, bootstrap: str, folder: Path) -> dict[str, Any]:
    source = {"kafka.bootstrap.servers": bootstrap, "subscribe": "orders"}
    return {
        "spark": spark,
        "checkpoint": str(folder / "checkpoint"),
        "reader": spark.read.format("ottla").options(**source),
        "frame": spark.read.format("ottla").options(**source).load(),
        "stream": spark.readStream.format("ottla").options(**source).load(),
    }


def run_frames(values: list[Any], folder: Path) -> None:
    from pyspark.sql import DataFrame

    for number, frame in enumerate(value for value in values if isinstance(value, DataFrame)):
        if not frame.isStreaming:
            frame.write.format("noop").mode("overwrite").save()
            continue
        place = str(folder / f"run-{number}")
        query = frame.writeStream.format("noop").option("checkpointLocation", place)
        query.trigger(availableNow=True).start().awaitTermination()
