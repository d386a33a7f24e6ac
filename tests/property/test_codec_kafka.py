"""Our codec beside Kafka's own message classes: the same bytes, the same refusals, the same declarations."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools.declare_messages import declare, formatted, read_definitions

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec
from ottla.wire.apis import ApiKey, is_flexible
from ottla.wire.schema import Message, version_range
from tests.property.messages import all_versions, instances

ROOT = Path(__file__).parents[2]
LIBS = ROOT / ".bench/kafka/libs"

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(
        not LIBS.is_dir() or shutil.which("java") is None, reason="needs Java and Kafka's jars"
    ),
]

relaxed = settings(
    max_examples=8,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)


class Kafka:
    """A Java process that reads messages with Kafka's classes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def read(self, message: type[Message], version: int, raw: bytes) -> tuple[int, bytes | None] | None:
        """How many bytes Kafka read and what it wrote again, if it could, or None if it refused."""
        package = "metadata" if message.SPEC.kind == "metadata" else "message"
        suffix = "" if message.SPEC.kind in {"metadata", "data"} else "Data"
        name = f"org.apache.kafka.common.{package}.{message.__name__}{suffix}"
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{name} {version} {raw.hex()}\n")
        stdin.flush()
        verdict, *rest = stdout.readline().rstrip("\n").split(" ")
        assert verdict in {"read", "refused"}
        if verdict == "refused":
            return None
        return int(rest[0]), None if rest[1] == "-" else bytes.fromhex(rest[1])


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    command = ["java", "-Xmx128m", "-cp", f"{LIBS}/*", str(Path(__file__).with_name("KafkaMessages.java"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield Kafka(process)
        assert process.stdin is not None
        process.stdin.close()


def name_of(value: Any) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("message", "version"), all_versions(), ids=name_of)
@relaxed
@given(data=st.data())
def test_kafka_reads_what_we_write_and_writes_the_same(
    kafka: Kafka, message: type[Message], version: int, data: st.DataObject
) -> None:
    raw = codec.encode(data.draw(instances(message, version)), version)
    assert kafka.read(message, version, raw) == (len(raw), raw)


@pytest.mark.parametrize(("message", "version"), all_versions(), ids=name_of)
@relaxed
@given(data=st.data(), flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3))
def test_damaged_bytes_mean_the_same_to_kafka(
    kafka: Kafka, message: type[Message], version: int, data: st.DataObject, flips: list[tuple[int, int]]
) -> None:
    raw = bytearray(codec.encode(data.draw(instances(message, version)), version) + bytes(2))
    for position, byte in flips:
        raw[position % len(raw)] = byte
    theirs = kafka.read(message, version, bytes(raw))
    if theirs is None:
        with pytest.raises(RemoteProtocolError):
            codec.decode(message, bytes(raw), version)
        return
    read_bytes, written = theirs
    try:
        ours, position = codec.decode_at(message, bytes(raw), version, 0)
    except RemoteProtocolError as refusal:
        if "too many tagged fields" in str(refusal):
            return
        raise
    assert position == read_bytes
    # Kafka keeps unknown tagged fields and writes them again, we drop them: so compare what is meant.
    if written is not None:
        assert codec.encode(codec.decode(message, written, version), version) == codec.encode(ours, version)


def test_the_declarations_are_those_of_kafka() -> None:
    for name, text in declare(read_definitions(LIBS)).items():
        assert (ROOT / "src/ottla" / name).read_text() == formatted(text), (
            f"{name}: run tools/declare_messages.py"
        )


def test_the_table_of_apis_is_kafkas() -> None:
    requests = [found for found in read_definitions(LIBS).values() if found["type"] == "request"]
    assert {found["apiKey"] for found in requests} == set(ApiKey)
    for found in requests:
        flexible = version_range(found.get("flexibleVersions", "none"))
        for version in range(16):
            assert is_flexible(found["apiKey"], version) == (version in flexible)
