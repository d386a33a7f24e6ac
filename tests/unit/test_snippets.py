"""Every block of the documents is executed by a test, or is listed here with the reason why it is not.

`EXECUTED` names the test that executes all blocks of a language in a document. Commands of `ottla` must exist with
their options, wherever they are printed.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from typing import Any

import pytest

from ottla.cli import broker
from ottla.cli.main import _app
from tests.support.snippets import ROOT, Block, blocks, documents

EXECUTED = {
    ("README.md", "python"): "tests/integration/test_snippets.py",
    ("README.md", "sh"): "tests/integration/test_snippets.py",
    ("TUTORIAL.md", "python"): "tests/integration/test_snippets.py",
    ("SPARK.md", "python"): "tests/spark/test_docs_snippets.py",
    ("PIPELINES.md", "python"): "tests/integration/test_snippets.py",
    ("TESTING.md", "python"): "tests/integration/fixtures/test_plugin.py",
}
NOT_EXECUTED = {
    ("README.md", "import ottla.spark"): "needs Spark: tests/spark/test_docs_snippets.py executes it",
    ("README.md", "$ ottla up --brokers 3"): "runs until Ctrl-C; tests/unit/cli/local/test_up.py",
    ("README.md", "$ make test"): "the test run itself",
    ("TUTORIAL.md", "python3 -m venv ottla-env"): "installs from a package index: `make wheel` does it with the wheel",
    ("TUTORIAL.md", "ottla broker --data"): "starts in the background: the block of the README is executed",
    ("TUTORIAL.md", "ottla pipelines run words.py --once"): "needs Spark: tests/spark/test_tutorial.py executes it",
    ("TUTORIAL.md", "ottla up --brokers 3"): "runs until Ctrl-C; tests/unit/cli/local/test_up.py",
    ("CONSOLE.md", "$ pip install 'ottla[console]'"): "runs until Ctrl-C; tests/unit/cli and tests of the console",
    ("CONTRIBUTING.md", "@handles("): "an excerpt of a handler",
    ("DESIGN.md", "$ .venv/bin/python -m pytest tests/unit/storage"): "runs tests",
    ("DESIGN.md", "$ .venv/bin/python tools/config_table.py"): "tests/unit/config checks its result",
    ("DESIGN.md", "$ .venv/bin/python tools/command_reference.py"): "tests/unit/test_docs.py checks its result",
    ("METRICS.md", "kafka-client-metrics.sh"): "a tool of Apache Kafka",
    ("PARALLEL_CONSUMER.md", "from ottla.client.parallel import Options"): "calls a service of the reader",
    ("PARALLEL_CONSUMER.md", "async def handle(message):"): "calls a service of the reader",
    ("PIPELINES.md", "ottla pipelines run words.py --bootstrap"): "needs Spark; tests/spark/test_tutorial.py",
    ("PIPELINES.md", "ottla pipelines run FILE_OR_MODULE"): "a list of options",
    ("PIPELINES.md", "ottla broker &"): "runs until Ctrl-C: tests/integration/test_demo.py runs the same programs",
    ("PIPELINES.md", "examples/declarative_pipelines/run.sh"): "tests/spark/test_declarative_pipelines.py runs it",
    ("SECURITY.md", "kafka-configs.sh"): "a tool of Apache Kafka: tests/compat/test_user_tools.py and test_tls.py",
    ("SECURITY.md", "kafka-delegation-tokens.sh"): "a tool of Apache Kafka: tests/compat/test_user_tools.py",
    ("SECURITY.md", "ottla broker --config server.properties --add-scram-file"): "tests/integration/test_users.py",
    ("SECURITY.md", "ottla secure init credentials"): "tests/integration/security/test_secure_init.py executes it",
    ("SECURITY.md", "ottla -c credentials"): "tests/integration/security/test_secure_init.py executes it",
    ("SECURITY.md", "kafka-acls.sh"): "tests/compat/test_acl_tool.py runs the tool",
    ("SECURITY.md", "# kafka-python"): "runs test suites of clients; tests/compat/test_suites.py runs the folder",
    ("SIMULATION.md", "$ make sim SEED=123"): "tests/simulation runs it",
    ("SIMULATION.md", "from ottla.testing.disk import Survival"): "tests/simulation makes the same calls",
    ("SIMULATION.md", "from ottla.testing.sim.run import Run"): "tests/simulation makes the same calls",
}  # fmt: skip
GENERATED = {"COMMANDS.md"}
"""The program's own help; tests/unit/cli/test_commands.py parses its examples."""
DRAWINGS = {"DESIGN.md", "SIMULATION.md", "PARALLEL_CONSUMER.md"}
"""Documents whose blocks without a language are drawings and tables."""
ALL = [block for path in documents() for block in blocks(path)]
COMMAND = re.compile(r"^(?:\$ )?((?:[A-Z_]+=\S+ )*)ottla +(.*?)(?:\s+#.*|\s*&\s*|\s{2,}.*)?$")


def listed(block: Block) -> list[tuple[str, str]]:
    return [key for key in NOT_EXECUTED if key[0] == block.document and block.first.startswith(key[1])]


@pytest.mark.parametrize("block", ALL, ids=lambda block: f"{block.document}:{block.line}")
def test_a_block_is_executed_or_listed(block: Block) -> None:
    if block.language in {"mermaid", "text", "json", "ini", "yaml", "properties"}:
        return
    if not block.language and block.document in DRAWINGS and not listed(block):
        return
    if listed(block) or block.document in GENERATED:
        return
    test = EXECUTED.get((block.document, block.language))
    assert test is not None, "execute the block in a test, or list it in NOT_EXECUTED with the reason"
    assert (ROOT / test).is_file()
    assert block.document in (ROOT / test).read_text(), f"{test} does not name {block.document}"


def test_no_entry_is_left_over() -> None:
    used = {key for block in ALL for key in listed(block)}
    assert used == set(NOT_EXECUTED)


@pytest.mark.parametrize(
    "block",
    [block for block in ALL if block.language == "python"],
    ids=lambda block: f"{block.document}:{block.line}",
)
def test_python_can_be_compiled(block: Block) -> None:
    compile(block.text, block.document, "exec")


def commands() -> list[tuple[Block, str]]:
    return [
        (block, found[2])
        for block in ALL
        if block.language in {"", "sh", "console", "bash"} and block.document not in DRAWINGS
        for line in block.text.splitlines()
        if (found := COMMAND.match(line.strip()))
    ]


@pytest.mark.parametrize(
    ("block", "line"), commands(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_commands_and_their_options_exist(block: Block, line: str) -> None:
    words = shlex.split(line.partition(" | ")[0])
    if words[0] == "broker":
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
            broker.main(["--help"])
        missing = [word for word in words if word.startswith("--") and word not in output.getvalue()]
        assert missing == []
        return
    import typer

    command: Any = typer.main.get_command(_app())
    while hasattr(command, "get_command") and words and not words[0].startswith("-"):
        name = words.pop(0)
        command = command.get_command(None, name)
        assert command is not None, f"there is no command {name}"
    options = {name for parameter in command.params for name in parameter.opts + parameter.secondary_opts}
    assert [
        word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in options
    ] == []
