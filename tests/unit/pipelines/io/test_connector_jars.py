"""The jars of Spark's own connector: given, cached, or reported as missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.pipelines.io.connector_jars import COORDINATES, connector_jars, file_name


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OTTLA_SPARK_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    (tmp_path / "jars").mkdir()
    return tmp_path / "jars"


def test_given_jars_are_taken(folder: Path) -> None:
    (folder / "mine.jar").touch()
    assert connector_jars([str(folder / "mine.jar")]) == [str(folder / "mine.jar")]


def test_a_given_jar_must_be_there(folder: Path) -> None:
    with pytest.raises(LocalError, match=r"nowhere\.jar"):
        connector_jars([str(folder / "nowhere.jar")])


def test_jars_elsewhere_are_sparks_to_find(folder: Path) -> None:
    assert connector_jars(["hdfs://name/a.jar"]) == ["hdfs://name/a.jar"]


def test_kept_jars_are_taken(folder: Path) -> None:
    for name in COORDINATES:
        (folder / file_name(name)).touch()
    assert connector_jars([]) == [str(folder / file_name(name)) for name in COORDINATES]


def test_without_maven_the_error_names_the_missing_jars_and_the_option(folder: Path) -> None:
    (folder / file_name(COORDINATES[0])).touch()
    with pytest.raises(LocalError) as refused:
        connector_jars([])
    message = str(refused.value)
    assert COORDINATES[0] not in message
    assert all(name in message for name in COORDINATES[1:])
    assert "--jars" in message
