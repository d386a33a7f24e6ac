"""`run.sh` of examples/declarative_pipelines, twice: the scoreboard by `spark-pipelines run`, our source and sink."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.pipelines.declare import topic
from ottla.pipelines.io.topics import create_missing
from tests.conftest import MakeBroker
from tests.support import scoreboard as checker

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative_pipelines"
TIMEOUT_S = 600

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("grpc") is None, reason="pip install 'pyspark[pipelines]'"),
]


def test_the_scoreboard_of_declared_tables(make_broker: MakeBroker, tmp_path: Path) -> None:
    """The second run adds what the first has not seen, and closed minutes are written once."""
    broker = make_broker()
    create_missing(
        broker.bootstrap, [topic("matches", partitions=3), topic("closed-minutes", partitions=3)], {}
    )
    project = tmp_path / "project"
    left = shutil.ignore_patterns("storage", "spark-warehouse", "metastore_db", "*.log", "spark-pipeline.yml")
    shutil.copytree(EXAMPLE, project, ignore=left)
    environment = {
        **os.environ,
        "BOOTSTRAP": broker.bootstrap,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = [str(project / "run.sh")]
    arrived = checker.arrivals(2, SystemClock().now_ms())
    for part in (arrived[:150], arrived[150:]):
        checker.send(broker.bootstrap, part)
        ran = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    assert (project / "storage").is_dir()
    standings, statistics = checker.expected(broker.bootstrap)
    closed = [json.loads(each.value()) for each in checker.committed(broker.bootstrap, "closed-minutes")]
    places = [(each["match"], each["started_ms"], each["window_start_ms"]) for each in closed]
    assert len(set(places)) == len(places), "each minute once"
    assert 0 < len(places) < len(statistics), "the last minutes are still open"
    for place, minute in zip(places, closed, strict=True):
        assert minute["home_points"] == statistics[place].home_points
        assert minute["events"] == statistics[place].events
    from pyarrow import parquet

    rows = parquet.read_table(next(project.glob("spark-warehouse/scoreboard"))).to_pylist()
    assert {(row["match"], row["home_points"], row["away_fouls"]) for row in rows} == {
        (each.match, each.home_points, each.away_fouls) for each in standings.values()
    }
