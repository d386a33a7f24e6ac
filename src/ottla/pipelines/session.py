"""The Spark session of a pipeline: tuned for short batches and a short start, quiet in the terminal.

Spark's own log goes to a file, with the standard streams of its process, so that the terminal shows our words
only. The settings here are defaults: a user's `--conf` goes before them. What they do and what they bring is told
in docs/PIPELINES.md.

`forget` is for what PySpark does not know: its Java process is gone, or was never of use, and another is to be started.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.base.errors import LocalError
from ottla.pipelines.java.installation import archive_path, find_java
from ottla.pipelines.java.process import ENDING_S, Launch, Stopped, end_java
from ottla.pipelines.spark_errors import condition_of, error_message
from ottla.spark import register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STOPPED_WAIT_S: Final = 20.0
_FILES: Final = "spark.hadoop.fs.file.impl"
_JAVA_GONE: Final = "JAVA_GATEWAY_EXITED"
_PYSPARKS_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_REASON_BYTES_MAX: Final = 10_000
_WARNING: Final = re.compile(r"^WARNING|^[\d-]+ [\d:.]+ WARN ")
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


def start(settings: SessionSettings, stop: threading.Event | None = None) -> SparkSession:
    """Starts Java and Spark; takes seconds. Raises `Stopped` as soon as `stop` is set meanwhile.

    After a failure, which is told as `LocalError`, after a stop and an interrupt, nothing is left of it.
    """
    settings.state.mkdir(parents=True, exist_ok=True)
    log4j = settings.state / "log4j2.properties"
    log4j.write_text(_LOG4J.format(file=settings.log.absolute()))
    conf = spark_conf(settings, java_options(settings))

    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    if settings.local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    made = SparkConf(loadDefaults=False)
    made.setAll(list(conf.items()))
    _send_to(settings.log)
    told_before = settings.log.stat().st_size if settings.log.exists() else 0
    with settings.log.open("ab") as log:
        # A session of its own: Ctrl-C in the terminal is ours to handle, not Java's or its workers'.
        launch = Launch(made, {"stdout": log, "stderr": log, "start_new_session": True})
        try:
            spark = SparkSession(launch.result(stop))
            register(spark)  # Spark would look for it, once, and not wait long
            if settings.local and _FILES not in conf:
                leave_checksums_out(spark)
        except BaseException as error:
            words = ""
            if isinstance(error, Exception) and not isinstance(error, Stopped):
                # Java is asked for the words of its error: while it can answer.
                words = f"Spark does not start: {reason(error, _told(settings.log, told_before))}; see {settings.log}"
            launch.end()
            # PySpark would keep the gateway of a start that failed, and give it to the next one.
            forget()
            if not words:
                raise
            raise LocalError(words) from error
        return spark


def leave_checksums_out(spark: SparkSession) -> None:
    """No `.crc` beside each file on the local disk: Hadoop starts the program chmod for every file it makes.

    `RawLocalFileSystem` would do that by a setting alone, but RocksDB's snapshots of a query's state fail with it.
    """
    context = spark.sparkContext
    files = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def _send_to(log: Path) -> None:
    """What PySpark has to say of an error in a plan, besides raising it, goes to the file too."""
    from pyspark.logger import PySparkLogger

    for name in _PYSPARKS_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.addHandler(logging.FileHandler(log, delay=True))


def _told(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read(_REASON_BYTES_MAX).decode(errors="replace")


def reason(error: Exception, told: str) -> str:
    """Why Spark has not started: in the words of Java when it ended before it could answer."""
    if condition_of(error) != _JAVA_GONE:
        return error_message(error)
    lines = [line.strip() for line in told.splitlines() if line.strip() and not _WARNING.search(line)]
    return lines[0].rpartition("Exception: ")[2] if lines else error_message(error)


def stop(spark: SparkSession, wait_s: float = STOPPED_WAIT_S) -> None:
    """Ends Spark and its Java process; also when that is already gone. A Java that does not end is killed."""
    gateway = spark.sparkContext._gateway
    with suppress(Exception):
        spark.sparkContext.setLogLevel("OFF")  # tasks that are cut off would be told as errors
    with suppress(Exception):
        spark.stop()
    end_java(gateway, wait_s)
    forget()


def lost(spark: SparkSession, error: BaseException) -> bool:
    """Whether the error comes of the end of Java's process, which shows in its connections a moment earlier."""
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

    gateway = spark.sparkContext._gateway
    process = gateway.proc if gateway is not None else None
    if isinstance(error, Py4JNetworkError) or process is None:
        return isinstance(error, Py4JNetworkError)
    if isinstance(error, ConnectionError):
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_S)
    return process.poll() is not None


def forget() -> None:
    """Makes PySpark start a new Java process the next time."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
