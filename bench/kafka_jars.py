"""Fetches the jars of Apache Kafka with Maven, once, below `.bench/kafka/libs`.

Only the runtime dependencies of the broker and of the command line tools: no start scripts are needed, a main
class and a class path are enough. Run as a program it fetches and says where.
"""

from __future__ import annotations

import shutil
import subprocess

from bench.places import KAFKA_LIBS

KAFKA_VERSION = "4.3.1"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-tools</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


def class_path() -> str:
    """The class path of Apache Kafka, fetching the jars when they are not there yet."""
    marker = KAFKA_LIBS / f"kafka-clients-{KAFKA_VERSION}.jar"
    if not marker.exists():
        fetch()
    return f"{KAFKA_LIBS}/*"


def java(main_class: str, *options: str) -> list[str]:
    """The beginning of a command line that runs one of Kafka's programs."""
    return ["java", "-Xmx512m", *options, "-cp", class_path(), main_class]


def fetch() -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SystemExit("Maven (mvn) is needed to fetch Apache Kafka")
    KAFKA_LIBS.parent.mkdir(parents=True, exist_ok=True)
    pom = KAFKA_LIBS.parent / "pom.xml"
    pom.write_text(POM)
    incoming = KAFKA_LIBS.with_suffix(".incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    subprocess.run(
        [
            maven,
            "--batch-mode",
            "--quiet",
            f"--file={pom}",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={incoming}",
        ],
        check=True,
    )
    shutil.rmtree(KAFKA_LIBS, ignore_errors=True)
    incoming.rename(KAFKA_LIBS)


if __name__ == "__main__":
    print(f"Apache Kafka {KAFKA_VERSION}: {class_path()}")
