"""The commands `ottla produce` and `ottla consume` as processes on a real broker; also with `--on-kafka`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import TIMEOUT_S, Publisher, create_topic, fresh
from tests.support.waiting import wait_until

OTTLA = (sys.executable, "-m", "ottla.cli.main")


def ottla(broker: BrokerProcess, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "OTTLA_BOOTSTRAP": broker.bootstrap, "COLUMNS": "200"}
    return subprocess.run(
        [*OTTLA, *arguments],
        input=given,
        capture_output=True,
        env=environment,
        check=False,
        timeout=4 * TIMEOUT_S,
    )


def done(broker: BrokerProcess, *arguments: str, given: bytes = b"") -> bytes:
    result = ottla(broker, *arguments, given=given)
    assert (result.returncode, result.stderr) == (0, b""), result
    return result.stdout


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    return create_topic(broker.bootstrap, fresh("commands"), 2)


def test_records_are_produced_and_consumed(broker: BrokerProcess, topic: str) -> None:
    one = done(broker, "produce", topic, "-k", "k", "-v", '{"a": 1}', "-H", "h=1", "-p", "1")
    assert one == f"1 record delivered to {topic}, partition 1, offset 0\n".encode()
    done(broker, "produce", topic, "-k", "gone", "--null", "-p", "1")
    assert json.loads(done(broker, "produce", topic, "-p", "1", "-o", "json", given=b"x\ny\n")) == {
        "topic": topic,
        "delivered": 2,
        "failed": 0,
        "aborted": False,
        "last_partition": 1,
        "last_offset": 3,
    }
    assert (
        done(broker, "consume", topic, "-f", "%k|%v|%h|%o") == b'k|{"a": 1}|h=1|0\ngone|||1\n|x||2\n|y||3\n'
    )
    assert done(broker, "consume", topic, "-O", "-1", "-f", "%v") == b"y\n"
    assert done(broker, "consume", topic, "-O", "1:3", "-p", "1", "-f", "%o") == b"1\n2\n"
    assert done(broker, "consume", topic, "--tail", "2", "-n", "1", "-f", "%v") == b"x\n"
    assert done(broker, "consume", topic, "--where", "value.a = 1", "-f", "%k") == b"k\n"
    assert done(broker, "consume", topic, "--where", "value = null", "-f", "%k") == b"gone\n"
    assert done(broker, "consume", topic, "--key", "g*", "-f", "%o") == b"1\n"
    assert done(broker, "consume", topic, "--decode", "hex", "-n", "1", "-f", "%k") == b"6b\n"
    lines = done(broker, "consume", topic).decode().splitlines()
    assert f"{topic}-1@0  k  " in lines[0]
    assert lines[1].endswith("gone  <null>")
    rows = json.loads(done(broker, "consume", topic, "-o", "json"))
    assert [row["value"] for row in rows] == ['{"a": 1}', None, "x", "y"]
    table = done(broker, "consume", topic, "-o", "csv").decode().splitlines()
    assert (table[0].split(",")[:3], len(table)) == (["topic", "partition", "offset"], 5)


def test_json_lines_are_produced_again(broker: BrokerProcess, topic: str) -> None:
    records: list[dict[str, Any]] = [
        {"key": b"\xff", "value": b"\x00\x80", "headers": [("a", None), ("a", b"\xfe")], "partition": 1},
        {"key": None, "value": None, "headers": [], "partition": 0},
    ]
    Publisher(broker.bootstrap).send(topic, records)
    copy = create_topic(broker.bootstrap, fresh("copy"), 2)
    lines = done(broker, "consume", topic, "-o", "jsonl")
    done(broker, "produce", copy, "--input", "jsonl", "--transactional", given=lines)
    expected = lines.replace(topic.encode(), copy.encode())
    # The markers of a transaction may be written after the response to its commit.
    wait_until(
        lambda: done(broker, "consume", copy, "--read-committed", "-o", "jsonl") == expected,
        "the committed records",
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("-O", "500"), 2, "has no offset 500: its log starts at 0 and ends at 0"),
        (("-O", "soon"), 2, "'soon' is not a position"),
        (("--where", "value ="), 2, "character 8"),
        (("-f", "%z"), 2, "unknown field %z"),
        (("-p", "9"), 2, "has no partition 9"),
        (("-f", "%v", "-o", "json"), 2, "contradict"),
    ],
)
def test_wrong_options_have_a_clear_error(
    broker: BrokerProcess, topic: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = ottla(broker, "consume", topic, *arguments)
    assert (result.returncode, result.stdout) == (code, b"")
    assert message in result.stderr.decode()
    assert b"Traceback" not in result.stderr


def test_an_unknown_topic_has_a_clear_error(broker: BrokerProcess) -> None:
    result = ottla(broker, "consume", "absent-topic")
    assert result.returncode == 2
    assert b"absent-topic" in result.stderr
    assert result.stderr.count(b"\n") == 1


def test_records_that_fail_are_reported(broker: BrokerProcess) -> None:
    small = create_topic(broker.bootstrap, fresh("small"), config={"max.message.bytes": "2000"})
    result = ottla(broker, "produce", small, given=b"a\n" + b"x" * 5000 + b"\nb\n")
    assert result.returncode == 1
    assert b"line 2: " in result.stderr
    assert result.stdout == f"2 records delivered to {small}; 1 failed\n".encode()
    result = ottla(broker, "produce", small, "--input", "jsonl", given=b'{"value": "c"}\n{nonsense\n')
    assert result.returncode == 1
    assert b"line 2: not JSON" in result.stderr
    assert done(broker, "consume", small, "-f", "%v") == b"a\nb\nc\n"
    result = ottla(broker, "produce", small, "--transactional", "--input", "jsonl", given=b"{}\n{nonsense\n")
    assert (result.returncode, b"aborted" in result.stdout) == (1, True)


@contextmanager
def running(*arguments: str) -> Iterator[tuple[Any, Any, Any]]:
    """A command with its standard output and errors; it is killed if it does not end."""
    with subprocess.Popen([*OTTLA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process, process.stdout, process.stderr
        finally:
            process.kill()


def test_following_ends_cleanly_with_an_interrupt(broker: BrokerProcess, topic: str) -> None:
    command = ("consume", topic, "--follow", "-O", "start", "-f", "%v", "-b", broker.bootstrap)
    with running(*command) as (process, out, errors):
        for value in (b"first", b"second"):
            Publisher(broker.bootstrap).send(topic, [{"value": value}])
            assert out.readline() == value + b"\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(TIMEOUT_S), errors.read()) == (0, b"")


def test_a_closed_pipe_is_quiet(broker: BrokerProcess, topic: str) -> None:
    Publisher(broker.bootstrap).send(topic, [{"value": b"x" * 1000}] * 2000)
    with running("consume", topic, "-b", broker.bootstrap) as (process, out, errors):
        assert out.readline()
        out.close()
        assert (process.wait(TIMEOUT_S), errors.read()) == (0, b"")


def test_a_group_continues_where_it_ended(broker: BrokerProcess, topic: str) -> None:
    group = fresh("group")
    done(broker, "produce", topic, "-p", "0", given=b"a\nb\nc\n")
    assert done(broker, "consume", topic, "-g", group, "-n", "2", "-f", "%v") == b"a\nb\n"
    assert done(broker, "consume", topic, "-g", group, "-f", "%v") == b"c\n"
    assert done(broker, "consume", topic, "-g", group, "-f", "%v") == b""


def test_the_pace_of_records(broker: BrokerProcess, topic: str) -> None:
    """Of ten records, 1000 per second, the last is sent 9 ms after the first."""
    done(broker, "produce", topic, "--rate", "1000", "-p", "0", given=b"x\n" * 10)
    times = [int(line) for line in done(broker, "consume", topic, "-f", "%T").splitlines()]
    assert len(times) == 10
    assert times[-1] - times[0] >= 8


def test_a_broker_that_cannot_be_reached() -> None:
    result = subprocess.run(
        [*OTTLA, "consume", "t", "-b", "127.0.0.1:1"], capture_output=True, check=False, timeout=TIMEOUT_S
    )
    assert result.returncode == 1
    assert b"cannot connect to 127.0.0.1:1" in result.stderr
