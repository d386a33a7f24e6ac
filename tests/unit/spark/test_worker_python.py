"""Which Python Spark starts its workers with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from ottla.spark import worker_python
from ottla.spark.worker_python import (
    DRIVER,
    WORKERS,
    WrongWorkerPython,
    check_local_session,
    set_for_local_session,
    set_variables,
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (WORKERS, DRIVER, "PYSPARK_GATEWAY_PORT"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    found_on_path(monkeypatch, "/usr/bin/python3")


def found_on_path(monkeypatch: pytest.MonkeyPatch, program: str | None) -> None:
    monkeypatch.setattr(worker_python.shutil, "which", lambda _: program)


def active_session(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> SimpleNamespace:
    context = SimpleNamespace(**{"master": "local[2]", "pythonExec": "python3", **attributes})
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    return context


@pytest.mark.parametrize("program", ["/usr/bin/python3", None])
def test_workers_get_the_running_python_if_the_path_has_another(
    monkeypatch: pytest.MonkeyPatch, program: str | None
) -> None:
    found_on_path(monkeypatch, program)
    set_variables()
    assert os.environ[WORKERS] == os.environ[DRIVER] == sys.executable


def test_an_active_environment_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found_on_path(monkeypatch, str(Path(sys.executable).with_name("python3")))
    set_variables()
    assert WORKERS not in os.environ


@pytest.mark.parametrize("name", [WORKERS, "PYSPARK_GATEWAY_PORT"])
def test_what_the_user_or_spark_submit_has_chosen_is_kept(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "chosen")
    set_variables()
    assert os.environ.get(WORKERS) == ("chosen" if name == WORKERS else None)
    assert DRIVER not in os.environ


def test_a_local_session_that_runs_already_gets_the_running_python(monkeypatch: pytest.MonkeyPatch) -> None:
    context = active_session(monkeypatch)
    set_for_local_session()
    assert context.pythonExec == sys.executable


@pytest.mark.parametrize("attributes", [{"master": "spark://h:7077"}, {"pythonExec": "/opt/python"}])
def test_clusters_and_chosen_pythons_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, attributes: dict[str, str]
) -> None:
    context = active_session(monkeypatch, **attributes)
    set_for_local_session()
    assert context.pythonExec != sys.executable


def test_without_a_session_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    set_for_local_session()


@pytest.mark.parametrize("has_ottla", [True, False])
def test_a_local_session_with_a_python_without_ottla_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, has_ottla: bool
) -> None:
    program = tmp_path / "python3"
    program.write_text(f"#!/bin/sh\nexit {0 if has_ottla else 1}\n")
    program.chmod(0o755)
    active_session(monkeypatch, pythonExec=str(program))
    found_on_path(monkeypatch, str(program))
    if has_ottla:
        check_local_session()
        return
    with pytest.raises(WrongWorkerPython) as raised:
        check_local_session()
    assert f"with {program}, which does not have ottla. Set PYSPARK_PYTHON={sys.executable}" in str(
        raised.value
    )


@pytest.mark.parametrize("attributes", [{"master": "spark://a:1"}, {"pythonExec": "/missing/python3"}])
def test_other_sessions_are_not_checked(monkeypatch: pytest.MonkeyPatch, attributes: dict[str, str]) -> None:
    found_on_path(monkeypatch, None)
    active_session(monkeypatch, **attributes)
    check_local_session()
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    check_local_session()
