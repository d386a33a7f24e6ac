"""The jars of Spark's own Kafka connector, which real-time mode needs: given, kept from before, or fetched by Maven.

Each is fetched on its own, without what its pom names: everything else it needs is in the pyspark package.
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


def kept() -> Path:
    """Where fetched jars stay."""
    named = os.environ.get("OTTLA_SPARK_JARS")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(named) if named else cache / "ottla" / "spark-jars"


def connector_jars(given: Sequence[str]) -> list[str]:
    """The jars to start Spark with; raises `LocalError` with what is missing when they can't be had."""
    if given:
        if absent := [jar for jar in given if "://" not in jar and not Path(jar).is_file()]:
            raise LocalError(f"--jars: there is no {', '.join(absent)}")
        return list(given)
    folder = kept()
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
            "Spark's own Kafka connector is made of jars that are not in its Python package. Missing: "
            f"{', '.join(missing)}. Give their files with --jars, put them into {folder}, or install Maven "
            "(mvn), which fetches them. Without them, run with --connector ottla and without --realtime"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name in missing:
        for goal in ("get", "copy"):
            wanted = "-Dtransitive=false" if goal == "get" else f"-DoutputDirectory={folder}"
            command = [maven, "--batch-mode", "--quiet", f"{_PLUGIN}:{goal}", f"-Dartifact={name}", wanted]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
            if ran.returncode:
                said = (ran.stdout + ran.stderr).strip().splitlines()
                raise LocalError(f"Maven can't fetch {name}: {said[0] if said else 'it does not say why'}")
