"""The Spark session of a pipeline: settings for short batches and a short start, and its log file.

Spark's log and the standard streams of its process are written to a file, so that the terminal shows only the output of
the command. The settings here are defaults; the user's `--conf` overrides them. docs/PIPELINES.md describes them.

`forget` makes PySpark start a new Java process when the old one has ended or has not started correctly.
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
_JAVA_EXITED: Final = "JAVA_GATEWAY_EXITED"
_PYSPARK_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_PY4J: Final = "py4j"
"""The logger of tracebacks of calls that the end of the Java process has interrupted."""
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
    # Real-time mode requires it; with it, a checkpoint can be used in both modes.
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
"""Additional settings for a local master."""
CLUSTER: Final = {"spark.sql.shuffle.partitions": "8"}
_LATE_OPTIMIZATION: Final = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Java's optimizing compiler works for methods that are used ten times as often as by default: most of what a start
uses is not used again, and the compiler takes the processor from it."""
JAVA_OPTIONS: Final = f"-XX:+UseSerialGC -Xshare:auto -Xlog:disable -Xlog:all=off {_LATE_OPTIMIZATION}"


@dataclass(frozen=True)
class SessionSettings:
    """The settings of a session."""

    name: str
    state: Path
    """The directory of its log."""
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[str, ...] = ()
    archive: Path | None = None
    """Write the archive of classes here when Java ends; None to use an existing archive."""

    @property
    def local(self) -> bool:
        return self.master.startswith("local")

    @property
    def log(self) -> Path:
        return self.state / "spark.log"


def spark_conf(settings: SessionSettings, java_options: str) -> dict[str, str]:
    """All settings of the session; the user's override the defaults, except Java's options, which are joined."""
    warehouse = {"spark.sql.warehouse.dir": str((settings.state / "warehouse").absolute())}
    conf = {**TUNED, **(LOCAL | warehouse if settings.local else CLUSTER), **settings.conf}
    given = conf.get("spark.driver.extraJavaOptions", "")
    conf["spark.driver.extraJavaOptions"] = f"{java_options} {given}".strip()
    if settings.jars:
        conf["spark.jars"] = ",".join(filter(None, (conf.get("spark.jars"), *settings.jars)))
    conf["spark.app.name"], conf["spark.master"] = settings.name, settings.master
    return conf


def java_options(settings: SessionSettings) -> str:
    """The options of the Java process; raises `JavaUnusable` if there is no usable Java."""
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
    """Start Java and Spark, which takes seconds. Raises `Stopped` if `stop` is set during the start.

    A failure is raised as `LocalError`. After a failure, a stop or an interrupt the Java process has been ended.
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
    _log_to(settings.log)
    size_before = settings.log.stat().st_size if settings.log.exists() else 0
    with settings.log.open("ab") as log:
        # A new process session: Ctrl-C in the terminal is sent to this process only, not to Java and its workers.
        launch = Launch(made, {"stdout": log, "stderr": log, "start_new_session": True})
        try:
            spark = SparkSession(launch.result(stop))
            register(spark)  # Spark looks for the data source only once, with a short timeout
            if settings.local and _FILES not in conf:
                leave_checksums_out(spark)
        except BaseException as error:
            message = ""
            if isinstance(error, Exception) and not isinstance(error, Stopped):
                # The message of the error is read from Java, so the process must still be running.
                text = _log_text(settings.log, size_before)
                message = f"Spark did not start: {reason(error, text)}; see {settings.log}"
            launch.end()
            # PySpark would use the gateway of the failed start again.
            forget()
            if not message:
                raise
            raise LocalError(message) from error
        return spark


def leave_checksums_out(spark: SparkSession) -> None:
    """Do not write `.crc` files on the local disk: Hadoop starts the program chmod for each file that it creates.

    The setting `RawLocalFileSystem` has the same effect, but RocksDB's snapshots of the state fail with it.
    """
    context = spark.sparkContext
    files = context._jvm.org.apache.hadoop.fs.FileSystem  # type: ignore[union-attr]
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


def _log_to(log: Path) -> None:
    """Write to the file what PySpark logs about an error in a plan, besides raising it."""
    from pyspark.logger import PySparkLogger

    for logger in (*map(PySparkLogger.getLogger, _PYSPARK_LOGGERS), logging.getLogger(_PY4J)):
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
            handler.close()
        logger.addHandler(logging.FileHandler(log, delay=True))
        logger.propagate = False


def _log_text(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        return file.read(_REASON_BYTES_MAX).decode(errors="replace")


def reason(error: Exception, log: str) -> str:
    """Why Spark has not started; from its log if the Java process has exited."""
    if condition_of(error) != _JAVA_EXITED:
        return error_message(error)
    lines = [line.strip() for line in log.splitlines() if line.strip() and not _WARNING.search(line)]
    return lines[0].rpartition("Exception: ")[2] if lines else error_message(error)


def stop(spark: SparkSession, wait_s: float = STOPPED_WAIT_S) -> None:
    """Stop Spark and its Java process, which may have ended already. After `wait_s` seconds Java is killed."""
    gateway = spark.sparkContext._gateway
    with suppress(Exception):
        spark.sparkContext.setLogLevel("OFF")  # do not log interrupted tasks as errors
    with suppress(Exception):
        spark.stop()
    end_java(gateway, wait_s)
    forget()


def lost(spark: SparkSession, error: BaseException) -> bool:
    """Whether the error was caused by the end of the Java process. Its connections fail slightly earlier."""
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
    """Make PySpark start a new Java process for the next session."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
