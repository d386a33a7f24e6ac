"""Finding the Java that Spark needs, and saying what is wrong with it before Spark does in many lines.

Spark's launcher takes the one in JAVA_HOME, otherwise the one on the PATH, and so does this. The start of a Java
machine is shortened by an archive of Spark's classes (class data sharing), which `ottla pipelines prepare` writes
once for a version of Java and of Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError

VERSION_MIN: Final = 17
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?[^"]*"')
_ADVICE: Final = (
    f"Spark needs Java {VERSION_MIN} or newer (Debian and Ubuntu: apt install openjdk-{VERSION_MIN}-jre-headless; "
    "elsewhere: adoptium.net), found by JAVA_HOME or on the PATH"
)


class JavaUnusable(LocalError):
    """There is no Java that Spark can run on."""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can run on."""

    program: str
    version: int
    told: str
    """What it says about itself, in its first line."""


def version_of(told: str) -> int | None:
    """The feature release in the words of `java -version`: 17 for "17.0.15", 8 for "1.8.0_292"."""
    found = _VERSION.search(told)
    if found is None:
        return None
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first


def find_java() -> Java:
    """The Java that Spark will take; raises `JavaUnusable` with what to do about it."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None:
        raise JavaUnusable(f"there is no Java here. {_ADVICE}")
    if home and not Path(program).exists():
        raise JavaUnusable(f"JAVA_HOME is {home}, but there is no {program}. {_ADVICE}")
    try:
        asked = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise JavaUnusable(f"{program} does not start: {error.strerror}. {_ADVICE}") from error
    told = (asked.stderr or asked.stdout).strip()
    first = told.splitlines()[0] if told else "nothing"
    version = version_of(told)
    if version is None:
        raise JavaUnusable(f"{program} does not tell its version (it says: {first}). {_ADVICE}")
    if version < VERSION_MIN:
        raise JavaUnusable(f"{program} is Java {version}, which is too old. {_ADVICE}")
    return Java(program, version, first)


def archive_path(java: Java, spark_version: str) -> Path:
    """Where the archive of Spark's classes for this Java is kept; it may not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    build = re.sub(r"[^\w.+-]+", "-", java.told.partition("version ")[2].replace('"', "")).strip("-")
    return cache / "ottla" / f"spark-{spark_version}-java-{build}.jsa"
