"""The settings of a session: ours, and the user's before them; and starts that fail."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from ottla.base.errors import LocalError
from ottla.pipelines import session
from ottla.pipelines.session import SessionSettings, spark_conf

STATE = Path("/state")


def test_a_users_setting_goes_before_ours() -> None:
    conf = spark_conf(SessionSettings("p", STATE, conf={"spark.sql.shuffle.partitions": "7"}), "-XX:+A")
    assert conf["spark.sql.shuffle.partitions"] == "7"


def test_javas_options_are_joined() -> None:
    given = {"spark.driver.extraJavaOptions": "-Dmine=1"}
    conf = spark_conf(SessionSettings("p", STATE, conf=given), "-XX:+A")
    assert conf["spark.driver.extraJavaOptions"] == "-XX:+A -Dmine=1"


def test_jars_are_joined() -> None:
    settings = SessionSettings("p", STATE, conf={"spark.jars": "mine.jar"}, jars=("a.jar", "b.jar"))
    assert spark_conf(settings, "")["spark.jars"] == "mine.jar,a.jar,b.jar"
    assert "spark.jars" not in spark_conf(SessionSettings("p", STATE), "")


def test_a_cluster_is_not_tied_to_this_machine() -> None:
    local = spark_conf(SessionSettings("p", STATE, "local[2]"), "")
    cluster = spark_conf(SessionSettings("p", STATE, "spark://host:7077"), "")
    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in cluster
    assert "spark.sql.warehouse.dir" not in cluster
    assert local["spark.hadoop.fs.file.impl"].endswith("RawLocalFileSystem")
    assert "spark.hadoop.fs.file.impl" not in cluster
    assert cluster["spark.master"] == "spark://host:7077"


def test_state_is_kept_in_rocksdb_with_a_changelog() -> None:
    conf = spark_conf(SessionSettings("p", STATE), "")
    assert conf["spark.sql.streaming.stateStore.providerClass"].endswith("RocksDBStateStoreProvider")
    assert conf["spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"] == "true"


class JavaError(Exception):
    """An error whose words Java has, as those of the bridge."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway

    def __str__(self) -> str:
        if self._gateway.proc.poll() is not None:
            raise ConnectionRefusedError
        return "An error occurred while calling None.\n: no such master"


class Gateway:
    """A Java process that has started, for a context that does not."""

    def __init__(self) -> None:
        self.proc = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.jvm = MagicMock()

    def shutdown(self) -> None:
        pass


@pytest.fixture
def no_spark_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Spark other tests of this process have is theirs again afterwards."""
    import pyspark
    import pyspark.sql

    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(pyspark.SparkContext, name, None)
    monkeypatch.setattr(pyspark.sql.SparkSession, "_instantiatedSession", None)


@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.usefixtures("no_spark_yet")
def test_a_start_that_fails_leaves_nothing_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    import pyspark

    gateway = Gateway()
    error = KeyboardInterrupt() if interrupted else JavaError(gateway)

    def fails(**_: Any) -> None:
        pyspark.SparkContext._gateway = gateway  # type: ignore[assignment]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        raise error

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda *_: gateway)
    monkeypatch.setattr(pyspark.SparkContext, "__init__", lambda _, **given: fails(**given))
    monkeypatch.setattr(session, "java_options", lambda _: "")
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt if interrupted else LocalError) as told:
        session.start(SessionSettings("p", tmp_path))
    if not interrupted:
        assert str(told.value) == f"Spark does not start: no such master; see {tmp_path / 'spark.log'}"
    assert gateway.proc.poll() is not None, "the Java process is gone"
    assert pyspark.SparkContext._gateway is None, "the next start begins anew"
    assert signal.getsignal(signal.SIGINT) == before


class JavaExited(Exception):
    def getCondition(self) -> str:
        return "JAVA_GATEWAY_EXITED"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("Invalid maximum heap size: -Xmxlots\nError: Could not", "Invalid maximum heap size: -Xmxlots"),
        (
            "WARNING: Using\n2026-01-01 10:00:00.550 WARN Utils: Your hostname\n"
            'Exception in thread "main" org.apache.spark.SparkException: Master must be\n\tat',
            "Master must be",
        ),
        ("", "exited"),
    ],
)
def test_javas_own_words_tell_why_it_ended(told: str, expected: str) -> None:
    assert session.reason(JavaExited("exited"), told) == expected
    assert session.reason(RuntimeError("else"), told) == "RuntimeError: else"
