"""The jars of Spark's Kafka connector, which real-time mode needs: given, cached, or downloaded by Maven.

Each jar is downloaded without its dependencies: all others are in the pyspark package.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError

COORDINATES: Final = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.12.1",
)
_PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


def cache_folder() -> Path:
    """The directory of downloaded jars."""
    named = os.environ.get("OTTLA_SPARK_JARS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "ottla" / "spark-jars"


def connector_jars(given: Sequence[str]) -> list[str]:
    """The jars to start Spark with; raises `LocalError` if some are missing and cannot be downloaded."""
    if given:
        if absent := [jar for jar in given if "://" not in jar and not Path(jar).is_file()]:
            raise LocalError(f"--jars: file not found: {', '.join(absent)}")
        return list(given)
    folder = cache_folder()
    missing = [name for name in COORDINATES if not (folder / file_name(name)).is_file()]
    if missing:
        _fetch(missing, folder)
    return [str(folder / file_name(name)) for name in COORDINATES]


def file_name(coordinates: str) -> str:
    _, artifact, version = coordinates.split(":")
    return f"{artifact}-{version}.jar"


def _fetch(missing: Sequence[str], folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise LocalError(
            "the jars of Spark's Kafka connector are not part of the pyspark package. Missing: "
            f"{', '.join(missing)}. Give the files with --jars, put them into {folder}, or install Maven "
            "(mvn) to download them. Without the jars, use --connector ottla and no --realtime"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing:
        for goal in ("get", "copy"):
            wanted = "-Dtransitive=false" if goal == "get" else f"-DoutputDirectory={folder}"
            command = [maven, "--batch-mode", "--quiet", f"{_PLUGIN}:{goal}", f"-Dartifact={name}", wanted]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            if ran.returncode:
                output = (ran.stdout + ran.stderr).strip().splitlines()
                raise LocalError(f"Maven cannot download {name}: {output[0] if output else 'no output'}")
