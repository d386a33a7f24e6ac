"""The scoreboard pipeline on a Spark cluster of its own: a master and two workers from the pyspark package.

While matches are played the broker is killed and started again, then a worker is killed with its executor. What the
topic and the table say afterwards is what plain Python works out of the same events.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ottla.base.clock import SystemClock
from ottla.base.rng import Random
from ottla.local.broker_process import BrokerProcess
from ottla.scoreboard.generator import Arrival, disturbed, faster, season
from ottla.scoreboard.match import encode
from ottla.scoreboard.standings import Standing, standings
from tests.support.clients import create_topic
from tests.support.spark_cluster import TIMEOUT_S, Processes, start_cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat

MATCHES, SEED, SPEED = 4, 5, 60
PARTITIONS = 3


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.close()


@pytest.fixture
def master(processes: Processes, tmp_path: Path) -> str:
    """The address of a master with two workers of two slots each."""
    return start_cluster(processes, tmp_path, cores=2)


def in_thirds(arrivals: list[Arrival]) -> Iterator[list[Arrival]]:
    size = -(-len(arrivals) // 3)
    for start in range(0, len(arrivals), size):
        yield arrivals[start : start + size]


def send(bootstrap: str, arrivals: list[Arrival]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for arrival in arrivals:
        producer.produce("matches", encode(arrival.event), arrival.event.match)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


class Scoreboard:
    """Every committed row of the topic of the scoreboard, in order within each match."""

    def __init__(self, bootstrap: str) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
        self.rows: list[Standing] = []
        self._consumer = Consumer(settings)
        partitions = range(PARTITIONS)
        self._consumer.assign(
            [TopicPartition("scoreboard", number, OFFSET_BEGINNING) for number in partitions]
        )

    def newest(self) -> dict[tuple[str, int], Standing]:
        """Of each match, after a look whether there is more. A broker that is away is waited for."""
        for message in self._consumer.consume(1000, timeout=0.2):
            if message.error() is None:
                self.rows.append(msgspec.json.decode(message.value(), type=Standing))
        return {(row.match, row.started_ms): row for row in self.rows}

    def close(self) -> None:
        self._consumer.close()


def table(folder: Path) -> dict[tuple[str, int], Standing]:
    """What the table holds; nothing before the first batch has made it."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(str(folder)):
        return {}
    rows: list[dict[str, Any]] = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
    found = [
        msgspec.convert({name: row[name] for name in Standing.__struct_fields__}, Standing) for row in rows
    ]
    return {(row.match, row.started_ms): row for row in found}


def test_the_scoreboard_survives_the_broker_and_a_worker(
    request: pytest.FixtureRequest,
    processes: Processes,
    master: str,
    make_broker: Callable[..., BrokerProcess],
    tmp_path: Path,
) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, "matches", PARTITIONS)
    origin_ms = SystemClock().now_ms()
    events = faster(season(MATCHES, origin_ms, SEED), origin_ms, SPEED)
    arrivals = list(disturbed(events, Random(SEED), duplicates=0.05, late=0.05, late_ms_max=1000))
    pipeline = ("pipelines", "run", "ottla.scoreboard.pipeline", "--json", "--master", master)
    places = ("--bootstrap", broker.bootstrap, "--state", str(tmp_path / "state"))
    conf = [
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.executor.memory=600m",
        "spark.sql.shuffle.partitions=2",
    ]
    options = [word for pair in conf for word in ("--conf", pair)]
    processes.start("driver", sys.executable, "-m", "ottla.cli.main", *pipeline, *places, *options)

    def check_until(condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            assert processes.alive("driver"), f"the pipeline has ended:\n{processes.said('driver')[-4000:]}"
            return condition()

        wait_until(holds, what, TIMEOUT_S)

    def follows(sent: list[Arrival]) -> Callable[[], bool]:
        expected = standings(arrival.event for arrival in sent)
        return lambda: shown.newest() == expected

    first, second, third = in_thirds(arrivals)
    send(broker.bootstrap, first)
    check_until(lambda: _there(broker.bootstrap), "the topic of the scoreboard")
    shown = Scoreboard(broker.bootstrap)
    request.addfinalizer(shown.close)
    check_until(follows(first), "the first third of the matches")

    broker.kill()
    broker.start()
    send(broker.bootstrap, second)
    check_until(follows([*first, *second]), "the second third, after the broker was killed")

    processes.kill("worker-0")
    send(broker.bootstrap, third)
    check_until(follows(arrivals), "the whole matches, after a worker was killed")

    expected = standings(arrival.event for arrival in arrivals)
    assert all(row.ended for row in expected.values())
    check_until(lambda: table(tmp_path / "state/scoreboard/tables/scoreboard") == expected, "the table")
    for match in expected:
        ages = [row.age for row in shown.rows if (row.match, row.started_ms) == match]
        assert all(before <= after for before, after in pairwise(ages)), "the scoreboard went back"
    assert processes.stop("driver") == 0, processes.said("driver")[-4000:]


def _there(bootstrap: str) -> bool:
    return "scoreboard" in AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=30).topics
