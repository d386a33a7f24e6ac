"""`ottla pipelines` without Spark: listing, status, and what it says when it can't run."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from ottla.admin.contexts import Context, ContextFolder
from ottla.cli.main import _app
from ottla.cli.pipelines import commands as pipelines
from ottla.cli.pipelines.commands import app
from ottla.cli.pipelines.views import flow_line, progress_table, status_table
from ottla.pipelines.io.connectors import Connector
from ottla.pipelines.progress import FlowProgress, RunProgress
from ottla.pipelines.runtime.runner import Runner


def ottla(*words: str) -> Result:
    return CliRunner().invoke(app, list(words), env={"COLUMNS": "160"})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A folder in which one pipeline has run."""
    folder = tmp_path / "state" / "words"
    folder.mkdir(parents=True)
    RunProgress(
        pipeline="words",
        pid=os.getpid(),
        started_ms=1,
        updated_ms=2,
        bootstrap="b:1",
        connector="ottla",
        master="local[2]",
        state="stopped",
        flows={
            "count": FlowProgress(state="stopped", batch=41, rows=1_234, lag=5, late_rows=67, left_out=89)
        },
    ).write(folder)
    return folder.parent


def test_the_scoreboard_is_listed_with_its_flows() -> None:
    output = ottla("list").output
    for words in ("scoreboard", "topic matches", "delta table scoreboard", "topic statistics", "never run"):
        assert words in output


def test_a_file_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "listed.py"
    path.write_text(
        "from ottla.pipelines import Pipeline, topic\n"
        "p = Pipeline('mine')\n"
        "p.flow(reads=topic('in'), writes=topic('out'), name='copy')(lambda frame: frame)\n"
    )
    assert "mine" in ottla("list", str(path)).output


def test_status_shows_past_runs(state: Path) -> None:
    result = ottla("status", "--state", str(state))
    assert result.exit_code == 0
    for words in ("words", "count", "stopped", "1,234", "41", "late", "67", "dropped", "89"):
        assert words in result.output


@pytest.mark.parametrize("width", [40, 200])
def test_a_narrow_terminal_gets_a_line_for_each_flow(state: Path, width: int) -> None:
    run = RunProgress.read(state / "words")
    assert run is not None
    run.flows["count"].error = "the broker is away"
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(status_table([run], 2_002))
    output = console.export_text()
    assert ("words, count: stopped" in output) == (width == 40)
    assert ("pipeline" in output) == (width == 200)
    for words in (
        "1,234",
        "67 late" if width == 40 else "67",
        "(the broker is away)" if width == 40 else "2 s ago",
    ):
        assert words in " ".join(output.split())
    assert " ".join(output.split()).count("the broker is away") == 1
    console.print(progress_table(run))
    shown = console.export_text()
    assert ("count: stopped, 1,234 rows" in shown) == (width == 40)


def test_status_is_json_too(state: Path) -> None:
    (one,) = json.loads(ottla("status", "words", "--json", "--state", str(state)).output)
    assert one["alive"] is False
    assert one["run"]["flows"]["count"]["rows"] == 1_234


def test_status_of_what_never_ran_is_refused(state: Path) -> None:
    result = ottla("status", "other", "--state", str(state))
    assert result.exit_code == 2
    assert "no run of other" in result.output


def test_an_empty_state_is_reported(tmp_path: Path) -> None:
    assert "No pipeline has run" in ottla("status", "--state", str(tmp_path)).output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere.py",), "file not found: nowhere.py"),
        (("ottla.scoreboard.pipeline", "--connector", "pulsar"), "--connector must be one of ottla, kafka"),
        (("ottla.scoreboard.pipeline", "--option", "acks"), "--option must be NAME=VALUE"),
        (("ottla.scoreboard.pipeline", "--realtime", "--once"), "use only one of them"),
    ],
)
def test_a_run_with_invalid_arguments_is_refused_in_one_line(words: tuple[str, ...], message: str) -> None:
    result = ottla("run", *words)
    assert result.exit_code == 2
    assert result.output.startswith("ottla: ")
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


def test_a_missing_java_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = ottla("run", "ottla.scoreboard.pipeline", "--state", str(tmp_path / "state"))
    assert result.exit_code == 2
    assert "Spark needs Java 17 or newer" in " ".join(result.output.split())
    assert not (tmp_path / "state").exists(), "nothing was begun"


@pytest.mark.skipif(shutil.which("java") is None, reason="a missing Java is reported first")
@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_a_state_that_is_not_a_directory_is_reported_in_one_line(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    taken = tmp_path / "taken"
    taken.write_text("a file")
    result = ottla("run", "ottla.scoreboard.pipeline", "--state", str(taken), *words)
    assert result.exit_code == 2
    assert result.output.startswith(f"ottla: --state: cannot create the directory {taken}")


@pytest.mark.parametrize("words", [("run", "ottla.scoreboard.pipeline"), ("list",), ("prepare",)])
def test_a_missing_spark_is_reported_before_it_is_imported(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: str) -> None:
        raise AssertionError("a pipeline imports pyspark")

    monkeypatch.setattr(pipelines, "load", load)
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None if name == "pyspark" else name)
    result = ottla(*words)
    assert result.exit_code == 2
    assert "pipelines need pyspark, which is not installed: pip install 'ottla[spark]'" in result.output


def test_delta_tables_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "find_spec", lambda name: None if name == "deltalake" else name)
    result = ottla("run", "ottla.scoreboard.pipeline")
    assert result.exit_code == 2
    assert "pipelines need deltalake" in result.output


def test_a_run_that_was_killed_is_shown_as_dead(state: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    progress = RunProgress.read(state / "words")
    assert progress is not None
    progress.state, progress.pid, progress.pipeline = "running", gone.pid, "scoreboard"
    (state / "scoreboard").mkdir()
    progress.write(state / "scoreboard")
    listed = ottla("list", "--state", str(state)).output
    assert f"dead: process {gone.pid} ended without reporting a result" in listed
    assert "running" not in listed


def test_names_are_whole_where_there_is_no_terminal(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    progress = RunProgress.read(state / "words")
    assert progress is not None
    progress.pipeline, flow = (
        "a-pipeline-with-a-name-as-people-give-them",
        "a-flow-that-counts-words-by-letter",
    )
    progress.flows = {flow: progress.flows["count"]}
    progress.write(state / "words")
    (line,) = [
        each
        for each in CliRunner().invoke(app, ["status", "--state", str(state)]).output.splitlines()
        if progress.pipeline in each
    ]
    assert flow in line
    assert "1,234" in line


def test_why_a_run_failed_is_in_its_status(state: Path) -> None:
    progress = RunProgress.read(state / "words")
    assert progress is not None
    progress.state, progress.error = "failed", "Spark did not start: no memory"
    progress.write(state / "words")
    assert "words: Spark did not start: no memory" in ottla("status", "--state", str(state)).output


@pytest.mark.parametrize(
    "words",
    [("pipelines", "run"), ("pipelines", "list"), ("pipelines", "status"), ("pipelines", "prepare"),
     ("matches", "play"), ("demo",)],
)  # fmt: skip
def test_the_examples_of_the_help_are_commands(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(_app(), [*words, "--help"], env={"COLUMNS": "160"}).output
    found = [line.strip() for line in shown.partition("Examples:")[2].splitlines() if line.strip()]
    assert found
    for line in found:
        command, *given = shlex.split(line)
        assert (command, tuple(given[: len(words)])) == ("ottla", words)
        assert CliRunner().invoke(_app(), [*given, "--help"]).exit_code == 0
        assert all(Path(each).exists() for each in given if each.endswith(".py"))


def test_json_lines_are_alone_whatever_the_pipeline_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(self: Runner) -> bool:
        print("from the flow's function")
        self._on_progress(self.progress)
        return True

    path = tmp_path / "prints.py"
    path.write_text(
        "from ottla.pipelines import Pipeline, topic\n"
        "print('from the file')\n"
        "p = Pipeline('mine')\n"
        "p.flow(reads=topic('in'), writes=topic('out'), name='copy')(lambda frame: frame)\n"
    )
    monkeypatch.setattr(pipelines, "find_java", lambda: None)
    monkeypatch.setattr(Runner, "run", runs)
    result = ottla("run", str(path), "--json", "--state", str(tmp_path / "state"))
    assert result.exit_code == 0
    (line,) = result.stdout.splitlines()
    assert json.loads(line)["pipeline"] == "mine"
    assert result.stderr == "from the file\nfrom the flow's function\n"


def test_a_run_uses_the_cluster_of_its_option_then_of_the_global_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step adds what precedes all steps before it."""
    chosen: list[Connector] = []

    def runs(self: Runner) -> bool:
        chosen.append(self._options.connector)
        return True

    monkeypatch.setattr(pipelines, "find_java", lambda: None)
    monkeypatch.setattr(Runner, "run", runs)
    settings = {"XDG_CONFIG_HOME": str(tmp_path), "OTTLA_BOOTSTRAP": "", "OTTLA_CONTEXT": ""}
    before, after = list[str](), list[str]()

    def run() -> str:
        words = [*before, "pipelines", "run", "ottla.scoreboard.pipeline", "--state", str(tmp_path), *after]
        result = CliRunner().invoke(_app(), words, env=settings)
        assert result.exit_code == 0, result.output
        return chosen[-1].bootstrap

    assert run() == "127.0.0.1:9092"
    context = Context("local", "context:1", {"security.protocol": "SSL", "client.id": "a"})
    ContextFolder.of_user(settings).save(context)
    after += ["--option", "kafka.client.id=b"]
    assert run() == "context:1"
    assert chosen[-1].options == {"kafka.security.protocol": "SSL", "kafka.client.id": "b"}
    settings["OTTLA_BOOTSTRAP"] = "environment:1"
    assert run() == "environment:1"
    before += ["-b", "global:1"]
    assert run() == "global:1"
    after += ["--bootstrap", "own:1"]
    assert run() == "own:1"


def test_an_address_in_brackets_is_shown_as_it_is() -> None:
    progress = RunProgress(
        pipeline="p",
        pid=1,
        started_ms=1,
        updated_ms=2,
        bootstrap="[fe80::1]:9092",
        connector="ottla",
        master="local[x]",
    )
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(progress_table(progress))
    assert "p on local[x], [fe80::1]:9092 through ottla" in console.export_text()


def test_pipelines_that_ran_are_listed_without_their_files(state: Path) -> None:
    output = ottla("list", "--state", str(state)).output
    for words in ("scoreboard", "words: stopped", "count"):
        assert words in output
    assert "words: stopped" not in ottla("list", "ottla.scoreboard.pipeline", "--state", str(state)).output


@pytest.mark.parametrize("width", [40, 200])
def test_an_outage_is_shown_instead_of_a_state_and_a_lag(state: Path, width: int) -> None:
    run = RunProgress.read(state / "words")
    assert run is not None
    run.state, run.outage, run.outage_since_ms = "running", "b:1 cannot be reached: refused", 0
    run.flows["count"].state = "running"
    for table in (progress_table(run), status_table([run], 2_002)):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(table)
        shown = " ".join(console.export_text().split())
        assert "b:1 cannot be reached: refused" in shown
        assert "No broker can be reached since" in shown
        assert "no broker" in shown
        assert "running" not in shown
        assert ("lag ?" in shown) == (width == 40)


def test_corrupt_values_are_shown_with_their_positions(state: Path) -> None:
    run = RunProgress.read(state / "words")
    assert run is not None
    run.flows["count"].corrupt, run.flows["count"].corrupt_first = 3, ["words-0 at offset 17"]
    for width in (40, 200):
        for table in (progress_table(run), status_table([run], 2_002)):
            console = Console(width=width, record=True, file=io.StringIO())
            console.print(table)
            shown = " ".join(console.export_text().split())
            assert "words-0 at offset 17" in shown
            assert ("3 corrupt" in shown) == (width == 40)


def test_a_first_batch_is_named() -> None:
    assert flow_line("count", FlowProgress(state="running")) == "count: running, first batch"
