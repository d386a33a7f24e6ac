"""`ottla produce` and `ottla consume` on a real broker."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.clients import fresh
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until


def test_a_record_of_options(ottla: CommandLine, topic: str) -> None:
    text, _ = ottla.run("produce", topic, "-k", "a", "-v", "1", "-H", "h=x")
    assert text == f"1 record delivered to {topic}, partition 0, offset 0\n"
    ottla.run("produce", topic, "-k", "a", "--null")
    first, second = ottla.json("consume", topic)
    assert (first["key"], first["value"], first["headers"]) == ("a", "1", [{"name": "h", "value": "x"}])
    assert second["value"] is None
    _, error = ottla.run("produce", topic, "-v", "1", "--null", code=2)
    assert "contradict" in error


def test_lines_of_the_input_and_formats_of_the_output(ottla: CommandLine, topic: str) -> None:
    ottla.run("produce", topic, "-K", ":", stdin="a:1\nb:2\nc:3\n")
    assert ottla.run("consume", topic, "-f", "%o %k=%v")[0] == "0 a=1\n1 b=2\n2 c=3\n"
    assert ottla.run("consume", topic, "-f", "%k", "-O", "+1:end", "-n", "1")[0] == "b\n"
    assert ottla.run("consume", topic, "-f", "%k", "--tail", "2")[0] == "b\nc\n"
    assert ottla.run("consume", topic, "-f", "%k", "--key", "[ac]")[0] == "a\nc\n"
    assert ottla.run("consume", topic, "-f", "%k", "--where", "value >= 2")[0] == "b\nc\n"
    assert f"{topic}-0@2" in ottla.run("consume", topic)[0]
    assert ottla.run("consume", topic, "-o", "csv")[0].splitlines()[0].startswith("topic,partition,offset")


def test_json_lines_can_be_produced_again(ottla: CommandLine, topic: str) -> None:
    ottla.run("produce", topic, "-k", "a", "-v", '{"n": 1}', "-H", "h=x")
    ottla.run("produce", topic, "--null")
    lines, _ = ottla.run("consume", topic, "-o", "jsonl")
    copy = fresh("copy")
    ottla.run("topics", "create", copy, "-p", "1")
    ottla.run("produce", copy, "--input", "jsonl", "--transactional", stdin=lines)

    def contents(name: str) -> list[list[object]]:
        output, _ = ottla.run("consume", name, "-o", "jsonl", "--read-committed")
        records = [json.loads(line) for line in output.splitlines()]
        return [[each["key"], each["value"], each["headers"]] for each in records]

    # The markers of a transaction may be written after the response to its commit.
    wait_until(lambda: len(contents(copy)) == 2, "the committed records")
    assert contents(copy) == contents(topic)


def test_a_group_reads_to_the_end_and_commits(ottla: CommandLine, topic: str) -> None:
    ottla.run("produce", topic, stdin="1\n2\n3\n")
    group = fresh("group")
    assert ottla.run("consume", topic, "-g", group, "-f", "%v")[0] == "1\n2\n3\n"
    assert ottla.json("groups", "describe", group)["lag"] == 0
    assert ottla.run("consume", topic, "-g", group, "-f", "%v")[0] == ""


def test_invalid_options_are_refused(ottla: CommandLine, topic: str, tmp_path: Path) -> None:
    for arguments in (["-O", "x"], ["--where", "("], ["-f", "%x"], ["--schema", str(tmp_path / "missing")]):
        ottla.run("consume", topic, *arguments, code=2)
