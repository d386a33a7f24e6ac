"""One cluster and one console for all tests of the console."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.console.web.server import ConsoleServer
from ottla.pipelines.progress import FlowProgress, RunProgress
from ottla.scoreboard.standings import Standing
from tests.support.clients import commit_offsets
from tests.support.console import ControlledCluster, ForeignBroker, ShownCluster, console_for

HOSTILE = [
    b"<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>",
    b'{"</pre><script>window.pwned = 3</script>": "<svg onload=window.pwned=4>"}',
    b"[" * 20_000 + b"]" * 20_000,
    b"\xff\xfe\x80 not text \x00\x1b[31m",
    "user \u202e\u2066gpj.exe\u2069 end".encode(),
    b"x" * 900_000,
    b"javascript:window.pwned = 5",
    b"{{ 7 * 7 }} {% include 'layout.html' %}",
]
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "2"}
COMMITTED = (("billing", "orders", 3), ("mobile", "scoreboard", 1), ("computer", "scoreboard", 2))
TOPICS = {"orders": 3, "hostile": 1, "empty": 1, "tailed": 1, "scoreboard": 1}


def standing(match: str, points: int, *, ended: bool) -> bytes:
    """A value of the topic of the demo."""
    made = Standing(
        match=match, started_ms=1, home_points=points, away_points=39, quarter=3, clock="04:21", home_fouls=2,
        away_fouls=3, last_event=f"Score {points}-39", last_event_ms=points, number=points, ended=ended,
    )  # fmt: skip
    return msgspec.json.encode(made)


def pytest_itemcollected(item: pytest.Item) -> None:
    """All tests of the console share a cluster and a browser: one process runs all of them."""
    item.add_marker(pytest.mark.xdist_group("console"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run them in the order of the files: they also share topics."""
    ours = [item for item in items if item.nodeid.startswith("tests/console/")]
    others = [item for item in items if not item.nodeid.startswith("tests/console/")]
    items[:] = [*others, *sorted(ours, key=lambda item: (item.path, item.reportinfo()[1] or 0))]


@pytest.fixture(scope="session")
def started(request: pytest.FixtureRequest) -> Iterator[ShownCluster]:
    """Three brokers in two racks; with `--on-kafka` one of Apache Kafka, which the console does not control."""
    if request.config.getoption("--on-kafka"):
        yield ForeignBroker(request.getfixturevalue("broker").bootstrap)
        return
    folder = request.getfixturevalue("tmp_path_factory").mktemp("console")
    with ControlledCluster(folder / "data", SETTINGS) as made:
        yield made


@pytest.fixture
def controlled(cluster: ShownCluster) -> ControlledCluster:
    """The cluster, for tests that kill brokers."""
    if isinstance(cluster, ForeignBroker):
        pytest.skip("the console controls brokers of `ottla up` only")
    return cluster


@pytest.fixture(scope="session")
def cluster(started: ShownCluster) -> ShownCluster:
    """The brokers with some topics, records and committed offsets."""
    made, replicas = started, 3 if isinstance(started, ControlledCluster) else 1
    admin = AdminClient({"bootstrap.servers": made.local.bootstrap})
    created = admin.create_topics([NewTopic(name, count, replicas) for name, count in TOPICS.items()])
    for future in created.values():
        future.result(60)
    producer = Producer({"bootstrap.servers": made.local.bootstrap, "log_level": 0})
    for number in range(120):
        value = f'{{"id": {number}, "total": {number * 1.5}, "status": "{("new", "paid")[number % 2]}"}}'
        producer.produce("orders", value, f"customer-{number % 7}", headers={"trace": f"t{number}"})
    for number, value in enumerate(HOSTILE):
        producer.produce("hostile", value, f"<b>key {number}</b>", headers={"<i>header</i>": value[:1000]})
    for number, (match, ended) in enumerate([("Canada vs USA", False), ("Japan vs Brazil", True)]):
        producer.produce("scoreboard", standing(match, 40 + number, ended=ended), match)
    assert producer.flush(60) == 0
    for group, topic, offset in COMMITTED:
        commit_offsets(made.local.bootstrap, group, TopicPartition(topic, 0, offset))
    return made


@pytest.fixture(scope="session")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state directory of a pipeline that has failed in one of its flows."""
    state = tmp_path_factory.mktemp("pipelines")
    (state / "scoreboard").mkdir()
    flows = {
        "scoreboard": FlowProgress(
            reads=["topic matches"], writes="topic scoreboard", state="running", batch=7, rows=5120,
            rows_per_s=812.5, batch_ms=230, lag=12, watermark="2026-11-17T10:00:00.000Z", state_rows=3,
        ),
        "table": FlowProgress(
            reads=["topic scoreboard"], writes="delta table scoreboard", state="failed", error="<b>No space left</b>"
        ),
    }  # fmt: skip
    RunProgress(
        pipeline="scoreboard", pid=1, started_ms=1, updated_ms=1, bootstrap="b", connector="ottla",
        master="local[2]", state="running", flows=flows,
    ).write(state / "scoreboard")  # fmt: skip
    return state


@pytest.fixture(scope="session")
def console(cluster: ShownCluster, pipelines: Path) -> Iterator[ConsoleServer]:
    with console_for(cluster.local.bootstrap, cluster.control, pipelines=pipelines) as server:
        yield server


@pytest.fixture(scope="session")
def read_only(cluster: ShownCluster) -> Iterator[ConsoleServer]:
    with console_for(cluster.local.bootstrap, cluster.control, read_only=True) as server:
        yield server
