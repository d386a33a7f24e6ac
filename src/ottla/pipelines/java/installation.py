"""Find the Java that Spark will use, check its version, and locate the archive of Spark's classes.

Spark's launcher uses the Java in JAVA_HOME, otherwise the one on the PATH. An archive of Spark's classes (class data
sharing) makes the start of Java shorter. `ottla pipelines prepare` writes it for one version of Java and of Spark.
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
    "elsewhere: adoptium.net), in JAVA_HOME or on the PATH"
)


class JavaUnusable(LocalError):
    """There is no Java that Spark can use."""


@dataclass(frozen=True)
class Java:
    """A Java that Spark can use."""

    program: str
    version: int
    version_line: str
    """The first line of `java -version`."""


def version_of(output: str) -> int | None:
    """The feature release in the output of `java -version`: 17 for "17.0.15", 8 for "1.8.0_292"."""
    found = _VERSION.search(output)
    if found is None:
        return None
    first, second = int(found[1]), int(found[2] or 0)
    return second if first == 1 else first


def find_java() -> Java:
    """The Java that Spark will use; raises `JavaUnusable` with advice."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if program is None:
        raise JavaUnusable(f"Java was not found. {_ADVICE}")
    if home and not Path(program).exists():
        raise JavaUnusable(f"JAVA_HOME is {home}, but {program} does not exist. {_ADVICE}")
    try:
        ran = subprocess.run([program, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError as error:
        raise JavaUnusable(f"cannot run {program}: {error.strerror}. {_ADVICE}") from error
    output = (ran.stderr or ran.stdout).strip()
    first = output.splitlines()[0] if output else "nothing"
    version = version_of(output)
    if version is None:
        raise JavaUnusable(f"{program} -version does not print a version (it prints: {first}). {_ADVICE}")
    if version < VERSION_MIN:
        raise JavaUnusable(f"{program} is Java {version}, which is too old. {_ADVICE}")
    return Java(program, version, first)


def archive_path(java: Java, spark_version: str) -> Path:
    """The path of the archive of Spark's classes for this Java; it may not exist."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    build = re.sub(r"[^\w.+-]+", "-", java.version_line.partition("version ")[2].replace('"', "")).strip("-")
    return cache / "ottla" / f"spark-{spark_version}-java-{build}.jsa"
