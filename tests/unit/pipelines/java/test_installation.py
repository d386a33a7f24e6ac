"""Finding Java: the version in its words, and what is said when it won't do."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ottla.pipelines.java.installation import Java, JavaUnusable, archive_path, find_java, version_of


@pytest.mark.parametrize(
    ("output", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_292"', 8),
        ('openjdk version "26-ea" 2026-03-17', 26),
        ("command not found", None),
        ("", None),
    ],
)
def test_the_version_is_parsed_from_the_output_of_java(output: str, version: int | None) -> None:
    assert version_of(output) == version


def fake_java(home: Path, output: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


def test_java_home_has_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "21.0.1" 2023-10-17')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert find_java() == Java(str(tmp_path / "bin" / "java"), 21, 'openjdk version "21.0.1" 2023-10-17')


def test_an_old_java_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, 'openjdk version "11.0.2" 2019-01-15')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnusable, match=r"is Java 11, which is too old\. Spark needs Java 17"):
        find_java()


def test_a_java_that_talks_nonsense_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, "hello")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnusable, match="it prints: hello"):
        find_java()


def test_a_java_home_without_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnusable, match="JAVA_HOME is"):
        find_java()


def test_a_missing_java_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaUnusable, match="Java was not found"):
        find_java()


def test_an_archive_belongs_to_a_java_and_a_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    old = archive_path(Java("java", 17, 'openjdk version "17.0.15" 2025-04-15'), "4.3.0")
    new = archive_path(Java("java", 17, 'openjdk version "17.0.16" 2025-07-15'), "4.3.0")
    assert old == Path("/cache/ottla/spark-4.3.0-java-17.0.15-2025-04-15.jsa")
    assert old != new != archive_path(Java("java", 17, 'openjdk version "17.0.16" 2025-07-15'), "4.4.0")
