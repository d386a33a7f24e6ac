"""Declaring pipelines: what can be said, what is refused at once, and how a file's pipeline is found."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import LocalError
from ottla.pipelines import Pipeline, table, topic
from ottla.pipelines.declare import load


def passes(frame: Any) -> Any:
    return frame


@pytest.fixture(autouse=True)
def forget_modules() -> Iterator[None]:
    modules, paths = set(sys.modules), list(sys.path)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    sys.path[:] = paths


def test_a_function_becomes_a_flow_and_stays_a_function() -> None:
    pipeline = Pipeline("words")

    @pipeline.flow(reads=topic("in"), writes=topic("out", key="word"), mode="update", every="1 second")
    def count(words: Any) -> Any:
        return words

    flow = pipeline.flows["count"]
    assert (flow.reads, flow.writes, flow.mode, flow.every) == (
        (topic("in"),),
        topic("out", key="word"),
        "update",
        "1 second",
    )
    assert count("frame") == "frame" == flow.function("frame")


def test_tables_are_looked_up_and_topics_are_streams() -> None:
    pipeline = Pipeline("words")
    pipeline.flow(reads=[topic("in"), table("names")], writes=table("out"))(passes)
    assert [place.name for place in pipeline.flows["passes"].streams] == ["in"]


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: Pipeline("a/b"), "letters, digits"),
        (lambda: topic("a b"), "letters, digits"),
        (lambda: table("t", format="csv"), "parquet, delta"),  # type: ignore[arg-type]
        (lambda: table("t", keys=["k"]), "delta"),
        (lambda: table("t", format="delta", keys="key"), "lists of column"),
        (lambda: table("t", format="delta", latest=["time"]), "needs keys"),
        (lambda: Pipeline("p").flow(reads=topic("a"), writes=topic("b"), mode="new"), "append"),  # type: ignore[arg-type]
        (lambda: Pipeline("p").flow(reads=table("a"), writes=topic("b"))(passes), "reads no topic"),
        (lambda: Pipeline("p").flow(reads="words", writes=topic("b")), "reads must be .*, got 'words'"),  # type: ignore[arg-type]
        (lambda: Pipeline("p").flow(reads=["words"], writes=topic("b")), "reads must be .*, got a list"),  # type: ignore[list-item]
        (lambda: Pipeline("p").flow(reads=None, writes=topic("b")), "reads must be .*, got None"),  # type: ignore[arg-type]
        (lambda: Pipeline("p").flow(reads=topic("a"), writes="out"), "writes must be .*, got 'out'"),  # type: ignore[arg-type]
        (lambda: Pipeline("p").flow(reads=topic("a"), writes=[topic("b")]), "writes must be .*, got a list"),  # type: ignore[arg-type]
        (lambda: topic("a", partitions="3"), "partitions must be a number, got '3'"),  # type: ignore[arg-type]
        (lambda: topic(3), "letters, digits"),  # type: ignore[arg-type]
        (lambda: Pipeline("p").flow(reads=topic("a"), writes=table("b"), mode="update")(passes), "delta"),
        (
            lambda: Pipeline("p").flow(
                reads=topic("a"), writes=table("b", format="delta"), mode="complete"
            )(passes),
            "mode=complete cannot be written",
        ),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_where_it_is_declared(declare: Any, words: str) -> None:
    with pytest.raises(LocalError, match=words):
        declare()


def test_two_flows_of_one_name_are_refused() -> None:
    pipeline = Pipeline("words")
    pipeline.flow(reads=topic("in"), writes=topic("out"))(passes)
    with pytest.raises(LocalError, match="two flows with the name passes"):
        pipeline.flow(reads=topic("in"), writes=topic("other"))(passes)
    pipeline.flow(reads=topic("in"), writes=topic("other"), name="again")(passes)
    assert list(pipeline.flows) == ["passes", "again"]


def test_a_flow_that_writes_a_topic_is_ordered_before_its_readers() -> None:
    pipeline = Pipeline("chain")
    for name, source, target in (
        ("last", "b", "c"),
        ("first", "in", "a"),
        ("middle", "a", "b"),
        ("other", "in", "x"),
    ):
        pipeline.flow(reads=topic(source), writes=topic(target), name=name)(passes)
    order = [flow.name for flow in pipeline.in_order()]
    assert sorted(order) == ["first", "last", "middle", "other"]
    assert order.index("first") < order.index("middle") < order.index("last")


def test_a_circle_of_flows_has_an_order_too() -> None:
    pipeline = Pipeline("circle")
    pipeline.flow(reads=topic("a"), writes=topic("b"), name="there")(passes)
    pipeline.flow(reads=topic("b"), writes=topic("a"), name="back")(passes)
    assert sorted(flow.name for flow in pipeline.in_order()) == ["back", "there"]


def test_a_topic_is_made_as_declared_wherever_that_is() -> None:
    pipeline = Pipeline("chain")
    pipeline.flow(reads=topic("a"), writes=topic("b"), name="there")(passes)
    pipeline.flow(reads=topic("b", partitions=6), writes=topic("c"), name="on")(passes)
    assert {name: each.partitions for name, each in pipeline.topics().items()} == {
        "a": None,
        "b": 6,
        "c": None,
    }


FILE = """
from ottla.pipelines import Pipeline, topic
from beside import NAME
pipeline = Pipeline(NAME)
@pipeline.flow(reads=topic("in"), writes=topic("out"))
def copy(frame):
    return frame
"""


def test_a_file_can_import_modules_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text('NAME = "found"')
    (tmp_path / "copying.py").write_text(FILE)
    pipeline = load(str(tmp_path / "copying.py"))
    assert (pipeline.name, list(pipeline.flows)) == ("found", ["copy"])


def test_a_module_is_loaded_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "copying_module.py").write_text(FILE.replace("from beside import NAME", 'NAME = "m"'))
    sys.path.insert(0, str(tmp_path))
    assert load("copying_module").name == "m"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "declares no pipeline"),
        ("from ottla.pipelines import Pipeline\np = Pipeline('empty')", "has no flow"),
        (
            "from ottla.pipelines import Pipeline\np, q = Pipeline('a'), Pipeline('b')",
            "several pipelines \\(a, b\\)",
        ),
    ],
)
def test_a_file_declares_one_pipeline(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "declared.py"
    path.write_text(text)
    with pytest.raises(LocalError, match=words):
        load(str(path))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("nowhere.py", "file not found: nowhere.py"),
        ("./nowhere", "file not found: ./nowhere"),
        ("nowhere.to.be.found", "there is neither a file nor a module with the name nowhere.to.be.found"),
        ("", "there is neither a file nor a module with the name ''"),
        ("..", "there is neither a file nor a module with the name .."),
    ],
)
def test_a_missing_file_or_pipeline_is_reported(what: str, words: str) -> None:
    with pytest.raises(LocalError) as raised:
        load(what)
    assert str(raised.value) == words


DECLARED = b"from ottla.pipelines import Pipeline, topic\npipeline = Pipeline('p')\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"x = 1\ndef f(:\n", ", line 2: SyntaxError: invalid syntax"),
        (b"x = '\xff'", ", line 1: SyntaxError: (unicode error) 'utf-8' codec can't decode byte 0xff"),
        (b"\nimport not_there_at_all", ", line 2: ModuleNotFoundError: No module named 'not_there_at_all'"),
        (b"from ottla.pipelines import Nope", ", line 1: ImportError: cannot import name 'Nope'"),
        (b"1 / 0", ", line 1: ZeroDivisionError: division by zero"),
        (b"raise ValueError", ", line 1: ValueError"),
        (b"raise SystemExit(3)", ", line 1: the file calls sys.exit (SystemExit: 3)"),
        (DECLARED + b"topic('a b')", ", line 3: the name of a topic must consist of letters"),
        (DECLARED + b"@pipeline.flow(reads=topic('a'))\ndef f(x): pass", ", line 3: TypeError: Pipeline.flow() miss"),
        (DECLARED + b"@pipeline.flow\ndef f(x): pass", ", line 3: TypeError: Pipeline.flow() takes"),
        (
            b"from pyspark.sql.functions import udf\n@udf('string')\ndef f(x): pass",
            ", line 2: [SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession should be created first. "
            "Spark starts after the file has been loaded",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("as_module", [False, True])
def test_an_error_in_user_code_is_reported_in_one_line_with_its_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: bytes, words: str, as_module: bool
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    path = tmp_path / "broken_code.py"
    path.write_bytes(text)
    sys.path.insert(0, str(tmp_path))
    what = "broken_code" if as_module else str(path)
    with pytest.raises(LocalError) as raised:
        load(what)
    assert str(raised.value).startswith(f"{what}{words}")
    assert "\n" not in str(raised.value)
    assert "broken_code" not in sys.modules


def test_an_error_in_a_file_beside_has_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("\n\nx =\n")
    (tmp_path / "imports_it.py").write_text("import beside_it")
    with pytest.raises(LocalError, match=r"^\S*beside_it.py, line 3: SyntaxError"):
        load(str(tmp_path / "imports_it.py"))


def test_an_interrupt_is_no_mistake_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load(str(tmp_path / "interrupted.py"))


def test_declaring_needs_no_spark() -> None:
    import subprocess

    code = "import sys, ottla.pipelines; sys.exit('pyspark' in sys.modules or 'pyarrow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_dead_letter_topic_adds_a_flow_for_corrupt_values() -> None:
    pipeline = Pipeline("p")
    source = topic("words", schema="word STRING", dead_letters="words.dead")
    for name in ("first", "second"):
        pipeline.flow(reads=source, writes=topic(name), name=name)(lambda frame: frame)
    assert list(pipeline.flows) == ["first", "words-dead-letters", "second"]
    added = pipeline.flows["words-dead-letters"]
    assert (added.reads, added.writes.name, added.takes_corrupt) == ((source,), "words.dead", True)
    assert set(pipeline.topics()) == {"words", "words.dead", "first", "second"}


def test_dead_letters_that_cannot_work_are_refused() -> None:
    with pytest.raises(LocalError, match="dead_letters needs a schema"):
        topic("words", dead_letters="words.dead")
    with pytest.raises(LocalError, match="the name of a dead-letter topic"):
        topic("words", schema="word STRING", dead_letters="words dead")
    pipeline = Pipeline("p")
    pipeline.flow(reads=topic("w", schema="a INT", dead_letters="x"), writes=topic("a"), name="a")(
        lambda frame: frame
    )
    with pytest.raises(LocalError, match="topic w has two dead-letter topics: x and y"):
        pipeline.flow(reads=topic("w", schema="a INT", dead_letters="y"), writes=topic("b"), name="b")(
            lambda frame: frame
        )
