"""Fetches the jars of Spark's own Kafka connector with Maven, once, below `.bench/spark-jars`.

Each jar is fetched on its own, without what its pom names: Spark's parent poms name a second repository, and
everything else that the connector needs is in the pyspark package. Run as a program it fetches and says where.
"""

from __future__ import annotations

import shutil
import subprocess

from bench.places import SPARK_JARS
from ottla.pipelines.io.connector_jars import COORDINATES, file_name

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1"


def connector_jars() -> str:
    """The value of `spark.jars`, fetching what is not there yet."""
    missing = [name for name in COORDINATES if not (SPARK_JARS / file_name(name)).exists()]
    if missing:
        fetch(missing)
    return ",".join(str(SPARK_JARS / file_name(name)) for name in COORDINATES)


def fetch(coordinates: list[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("Maven (mvn) is needed to fetch Spark's Kafka connector")
    SPARK_JARS.mkdir(parents=True, exist_ok=True)
    for name in coordinates:
        quiet = [maven, "--batch-mode", "--quiet"]
        subprocess.run([*quiet, f"{PLUGIN}:get", f"-Dartifact={name}", "-Dtransitive=false"], check=True)
        subprocess.run(
            [*quiet, f"{PLUGIN}:copy", f"-Dartifact={name}", f"-DoutputDirectory={SPARK_JARS}"], check=True
        )


if __name__ == "__main__":
    print(f"Spark's Kafka connector: {connector_jars()}")
