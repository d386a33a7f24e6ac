"""The Spark session of a pipeline: tuned for short batches and a short start, quiet in the terminal.

Spark's own log goes to a file, with the standard streams of its process, so that the terminal shows our words
only. The settings here are defaults: a user's `--conf` goes before them. What they do and what they bring is told
in docs/PIPELINES.md.

`forget` is for the one case that PySpark does not know: its Java process is gone and another is to be started.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.pipelines.java import archive_path, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOPPED_WAIT_S: Final = 20.0
_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {file}
appender.file.filePattern = {file}.%i
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 20MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""
TUNED: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Real-time mode insists on it; with it from the first day a checkpoint serves both modes.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.locality.wait": "0",
}
LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "in-memory",
}
"""More for a master inside this process: the machine is ours alone and small."""
CLUSTER: Final = {"spark.sql.shuffle.partitions": "8"}
JAVA_OPTIONS: Final = "-XX:+UseSerialGC -Xshare:auto -Xlog:disable -Xlog:all=off"


@dataclass(frozen=True)
class SessionSettings:
    """What a session is started with."""

    name: str
    state: Path
    """Where its log is written."""
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    archive: Path | None = None
    """Write the archive of classes here when Java ends; None to use the one that is there."""

    @property
    def local(self) -> bool:
        return self.master.startswith("local")

    @property
    def log(self) -> Path:
        return self.state / "spark.log"


def spark_conf(settings: SessionSettings, java_options: str) -> dict[str, str]:
    """All settings of the session; the user's go before ours, and Java's options are joined."""
    warehouse = {"spark.sql.warehouse.dir": str((settings.state / "warehouse").absolute())}
    conf = {**TUNED, **(LOCAL | warehouse if settings.local else CLUSTER), **settings.conf}
    given = conf.get("spark.driver.extraJavaOptions", "")
    conf["spark.driver.extraJavaOptions"] = f"{java_options} {given}".strip()
    if settings.jars:
        conf["spark.jars"] = ",".join(filter(None, (conf.get("spark.jars"), *settings.jars)))
    conf["spark.app.name"], conf["spark.master"] = settings.name, settings.master
    return conf


def java_options(settings: SessionSettings) -> str:
    """How the Java process is started; raises `JavaUnusable` when there is none."""
    import pyspark

    log4j = settings.state / "log4j2.properties"
    archive = archive_path(find_java(), pyspark.__version__)
    options = f"{JAVA_OPTIONS} -Dlog4j2.configurationFile={log4j.absolute().as_uri()}"
    if settings.archive is not None:
        return f"{options} -XX:ArchiveClassesAtExit={settings.archive}"
    if archive.exists():
        return f"{options} -XX:SharedArchiveFile={archive}"
    return options


def start(settings: SessionSettings) -> SparkSession:
    """Starts Java and Spark; takes seconds."""
    settings.state.mkdir(parents=True, exist_ok=True)
    log4j = settings.state / "log4j2.properties"
    log4j.write_text(_LOG4J.format(file=settings.log.absolute()))
    conf = spark_conf(settings, java_options(settings))

    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if settings.local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    made = SparkConf(loadDefaults=False)
    made.setAll(list(conf.items()))
    with settings.log.open("ab") as log:
        # A session of its own: Ctrl-C in the terminal is ours to handle, not Java's or its workers'.
        streams = {"stdout": log, "stderr": log, "start_new_session": True}
        launch: Any = launch_gateway
        gateway = launch(made, streams)
    with _own_signals():
        context = SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm))
    return SparkSession(context)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Spark takes Ctrl-C for itself when it starts in the main thread; this gives it back."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)


def stop(spark: SparkSession, wait_s: float = STOPPED_WAIT_S) -> None:
    """Ends Spark and its Java process; also when that is already gone. A Java that does not end is killed."""
    gateway = spark.sparkContext._gateway
    with suppress(Exception):
        spark.sparkContext.setLogLevel("OFF")  # tasks that are cut off would be told as errors
    with suppress(Exception):
        spark.stop()
    if gateway is not None:
        with suppress(Exception):
            gateway.shutdown()
        process = gateway.proc
        if process is not None:
            process.stdin.close()
            try:
                process.wait(wait_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    forget()


def forget() -> None:
    """Makes PySpark start a new Java process the next time."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
