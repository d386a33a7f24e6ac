"""Fetches and builds the programs beside this file, below `.bench/clients`, when a source is newer.

Run as a program it builds all of them. Downloads use the registries
that Go, npm and Maven are configured with.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bench.kafka_jars import KAFKA_VERSION, class_path
from bench.places import WORK

SOURCES = Path(__file__).parent
BUILT = WORK / "clients"
STREAMS_LIBS = BUILT / "streams-libs"
STREAMS_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ottla</groupId>
  <artifactId>kafka-streams-jars</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-streams</artifactId>
      <version>{KAFKA_VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""
JAVA_OPTIONS = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def need(program: str) -> str:
    """The path of a program; the test is skipped when it is not there."""
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def is_fresh(made: Path, sources: list[Path]) -> bool:
    return made.exists() and made.stat().st_mtime >= max(one.stat().st_mtime for one in sources)


def go_members() -> list[str]:
    return _go("go")


def go_secured() -> list[str]:
    return _go("go_secured")


def _go(name: str) -> list[str]:
    """The command of a program in Go, from the folder of this name."""
    folder = SOURCES / name
    made = BUILT / f"{name}-program"
    if not is_fresh(made, sorted(folder.iterdir())):
        BUILT.mkdir(parents=True, exist_ok=True)
        subprocess.run([need("go"), "build", "-o", str(made), "."], cwd=folder, check=True)
    return [str(made)]


def js_members() -> list[str]:
    """kafkajs lies beside a copy of the program, where Node looks for it."""
    folder = BUILT / "js"
    sources = [SOURCES / "js" / name for name in ("package.json", "members.js")]
    made = folder / "members.js"
    if not (is_fresh(made, sources) and (folder / "node_modules" / "kafkajs").is_dir()):
        folder.mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copyfile(source, folder / source.name)
        quietly = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run([need("npm"), "install", *quietly], cwd=folder, check=True)
    return [need("node"), str(made)]


def java_program(name: str, libraries: str) -> list[str]:
    """One class, compiled against the given class path, and the command that runs it."""
    need("javac")
    source = SOURCES / "java" / f"{name}.java"
    classes = BUILT / "java"
    if not is_fresh(classes / f"{name}.class", [source]):
        classes.mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-cp", libraries, "-d", str(classes), str(source)], check=True)
    return ["java", *JAVA_OPTIONS, "-cp", f"{classes}:{libraries}", name]


def java_members() -> list[str]:
    return java_program("Members", class_path())


def word_count() -> list[str]:
    return java_program("WordCount", f"{streams_libraries()}/*")


def streams_libraries() -> Path:
    if not (STREAMS_LIBS / f"kafka-streams-{KAFKA_VERSION}.jar").exists():
        BUILT.mkdir(parents=True, exist_ok=True)
        pom = BUILT / "streams-pom.xml"
        pom.write_text(STREAMS_POM)
        fetch = [
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DoutputDirectory={STREAMS_LIBS}",
        ]
        subprocess.run([need("mvn"), "--batch-mode", "--quiet", f"--file={pom}", *fetch], check=True)
    return STREAMS_LIBS


if __name__ == "__main__":
    for build in (go_members, js_members, java_members, word_count):
        try:
            build()
        except pytest.skip.Exception as missing:
            print(f"compat: {missing}; its tests are skipped")
