"""The settings of a session: ours, and the user's before them; and starts that fail."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark import java_gateway
from pyspark.logger import PySparkLogger

from ottla.base.errors import LocalError
from ottla.pipelines import session
from ottla.pipelines.java import process as java_process
from ottla.pipelines.session import SessionSettings, spark_conf
from tests.support.waiting import wait_until

STATE = Path("/state")


_HANGS_S = 240
"""A wait that takes longer hangs; the machine may be busy."""


def test_a_user_setting_overrides_the_default() -> None:
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
    assert cluster["spark.master"] == "spark://host:7077"


def test_files_are_those_that_snapshots_of_the_state_can_be_made_of() -> None:
    for master in ("local[2]", "spark://host:7077"):
        assert "spark.hadoop.fs.file.impl" not in spark_conf(SessionSettings("p", STATE, master), "")


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
        self.proc = subprocess.Popen(
            [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True
        )
        self.jvm = MagicMock()

    def shutdown(self) -> None:
        pass


@pytest.fixture
def no_spark_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Spark other tests of this process have is theirs again afterwards; no Java is looked for."""
    import pyspark
    import pyspark.sql

    for name in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(pyspark.SparkContext, name, None)
    monkeypatch.setattr(pyspark.sql.SparkSession, "_instantiatedSession", None)
    monkeypatch.setattr(session, "java_options", lambda _: "")


@pytest.mark.usefixtures("no_spark_yet")
def test_a_failed_start_stops_its_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyspark

    gateway = Gateway()

    def fails(_: Any, **__: Any) -> None:
        pyspark.SparkContext._gateway = gateway  # type: ignore[assignment]
        raise JavaError(gateway)

    monkeypatch.setattr("pyspark.java_gateway.launch_gateway", lambda *_: gateway)
    monkeypatch.setattr(pyspark.SparkContext, "__init__", fails)
    with pytest.raises(LocalError) as raised:
        session.start(SessionSettings("p", tmp_path))
    assert str(raised.value) == f"Spark did not start: no such master; see {tmp_path / 'spark.log'}"
    assert gateway.proc.poll() is not None, "the Java process is gone"
    assert pyspark.SparkContext._gateway is None, "the next start begins anew"


class Home:
    """A Spark whose Java never answers; it does not mind being asked to end, nor does its helper."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pids = folder / "pids"
        script = folder / "home" / "bin" / "spark-submit"
        script.parent.mkdir(parents=True)
        script.write_text(
            f"#!/bin/sh\ntrap '' TERM\nsleep 600 & echo $$ $! > {self._pids}.new\n"
            f"mv {self._pids}.new {self._pids}\nwhile :; do sleep 600; done\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(script.parent.parent))

    @property
    def up(self) -> bool:
        return self._pids.exists()

    @property
    def gone(self) -> bool:
        return not any(Path("/proc", pid).exists() for pid in self._pids.read_text().split())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_spark_yet: None) -> Home:
    monkeypatch.setattr(java_process, "ENDING_S", 0.2)
    return Home(tmp_path, monkeypatch)


def test_an_interrupt_while_java_starts_leaves_no_process(tmp_path: Path, home: Home) -> None:
    """Ctrl-C twice is an interrupt, and may come before Java has said a word."""

    def interrupts() -> None:
        wait_until(lambda: home.up, "Java's process")
        signal.raise_signal(signal.SIGINT)

    other = threading.Thread(target=interrupts)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            session.start(SessionSettings("p", tmp_path))
    finally:
        signal.signal(signal.SIGINT, before)
        other.join()
    wait_until(lambda: home.gone, "the end of Java's process")


def test_a_stop_while_java_starts_ends_it(tmp_path: Path, home: Home) -> None:
    class Stop(threading.Event):
        def is_set(self) -> bool:
            return home.up

    with pytest.raises(java_process.Stopped):
        session.start(SessionSettings("p", tmp_path), Stop())
    wait_until(lambda: home.gone, "the end of Java's process")


def test_a_start_abandoned_before_there_is_a_process_ends_it_when_there_is(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested, may_launch = threading.Event(), threading.Event()
    launch = java_gateway.launch_gateway

    def late(*given: Any) -> Any:
        requested.set()
        assert may_launch.wait(_HANGS_S)
        return launch(*given)

    monkeypatch.setattr(java_gateway, "launch_gateway", late)
    started = java_process.Launch(None, {"start_new_session": True})
    assert requested.wait(_HANGS_S)
    ends = threading.Thread(target=started.end)
    ends.start()
    wait_until(lambda: started._abandoned, "giving up")
    may_launch.set()
    ends.join(_HANGS_S)
    assert not ends.is_alive()
    wait_until(lambda: not home.up or home.gone, "the end of Java's process")


def test_warnings_of_pyspark_are_written_to_the_log(
    tmp_path: Path, no_spark_yet: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(java_process.Launch, "result", lambda *_: (_ for _ in ()).throw(ValueError("no")))
    monkeypatch.setattr(java_process.Launch, "_run", lambda _: None)
    with pytest.raises(LocalError):
        session.start(SessionSettings("p", tmp_path))
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        logger.error(f"{name} tells", line=7)
        assert f"{name} tells" in (tmp_path / "spark.log").read_text()
        assert capfd.readouterr() == ("", "")


class JavaExited(Exception):
    def getCondition(self) -> str:
        return "JAVA_GATEWAY_EXITED"


@pytest.mark.parametrize(
    ("output", "expected"),
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
def test_the_reason_is_taken_from_the_output_of_java(output: str, expected: str) -> None:
    assert session.reason(JavaExited("exited"), output) == expected
    assert session.reason(RuntimeError("else"), output) == "RuntimeError: else"


def test_tracebacks_of_py4j_are_written_to_the_log_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second Ctrl-C ends Java while py4j waits for it; py4j logs a traceback then."""
    logger = logging.getLogger("py4j")
    try:
        session._log_to(tmp_path / "spark.log")
        logging.getLogger("py4j.clientserver").error("Exception while sending command.")
        assert "Exception while sending command." in (tmp_path / "spark.log").read_text()
        assert capsys.readouterr().err == ""
    finally:
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.propagate = True
