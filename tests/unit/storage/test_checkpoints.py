from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from ottla.base.files import OsDisk
from ottla.base.ids import TopicPartition, parse_uuid
from ottla.storage import checkpoints
from ottla.storage.checkpoints import CorruptCheckpoint, MetaProperties

DISK = OsDisk()
META = (
    "#\n#Mon Nov 16 00:38:19 UTC 2026\nnode.id=1\ndirectory.id=Yxu_A89sReSbwpL1jqbSPg\nversion=1\n"
    "cluster.id=4L6g3nShT-eMCtK--X86sw\n"
)
"""As Apache Kafka's format command wrote it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


def test_offsets_round_trip_in_kafkas_form(path: Path) -> None:
    offsets = {TopicPartition("b", 1): 7, TopicPartition("a.x", 0): 0, TopicPartition("b", 0): 2**62}
    checkpoints.write_offsets(DISK, str(path), offsets)
    assert path.read_bytes() == b"0\n3\na.x 0 0\nb 0 4611686018427387904\nb 1 7\n"
    assert checkpoints.read_offsets(DISK, str(path)) == offsets


@pytest.mark.parametrize("content", [None, b"", b"0\n", b"0\n0\n"])
def test_no_offsets(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    assert checkpoints.read_offsets(DISK, str(path)) == {}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"1\n0\n", "version '1'"),
        (b"x", "version 'x'"),
        (b"0\n2\na 0 1\n", "2 entries announced, 1 found"),
        (b"0\n1\na 0\n", "line 3: 2 words where 3 belong"),
        (b"0\n1\na 0 1\n\n", "line 4: 0 words"),
        (b"0\n1\na b 1\n", "line 3: 'b' is not a number"),
        (b"0\n1\na 0 9223372036854775808\n", "out of range"),
        (b"0\n99999999999\na 0 1\n", "out of range"),
        (b"\xff\xfe", "not a text file"),
    ],
)
def test_malformed_offsets_are_named(path: Path, content: bytes, complaint: str) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match=complaint) as caught:
        checkpoints.read_offsets(DISK, str(path))
    assert str(path) in str(caught.value)


def test_topic_ids(path: Path) -> None:
    assert checkpoints.read_topic_id(DISK, str(path)) is None
    topic_id = parse_uuid("NT4-XmMzRUec-8_BvofeSA")
    checkpoints.write_topic_id(DISK, str(path), topic_id)
    assert path.read_bytes() == b"version: 0\ntopic_id: NT4-XmMzRUec-8_BvofeSA"
    assert checkpoints.read_topic_id(DISK, str(path)) == topic_id


@pytest.mark.parametrize(
    "content",
    [b"", b"version: 1\ntopic_id: NT4-XmMzRUec-8_BvofeSA", b"version: 0\ntopic_id: short", b"nonsense"],
)
def test_malformed_topic_ids(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CorruptCheckpoint):
        checkpoints.read_topic_id(DISK, str(path))


def test_clean_shutdown_marker(path: Path) -> None:
    assert checkpoints.read_clean_shutdown(DISK, str(path)) is None
    checkpoints.write_clean_shutdown(DISK, str(path), 14)
    assert path.read_bytes() == b'{"version":0,"brokerEpoch":14}'
    assert checkpoints.read_clean_shutdown(DISK, str(path)) == 14


@pytest.mark.parametrize("content", [b"", b"[]", b'{"brokerEpoch":"x"}', b"\xff"])
def test_any_marker_counts(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert checkpoints.read_clean_shutdown(DISK, str(path)) == -1


def test_meta_properties(path: Path) -> None:
    path.write_text(META)
    meta = checkpoints.read_meta_properties(DISK, str(path))
    assert meta == MetaProperties("4L6g3nShT-eMCtK--X86sw", 1, UUID("631bbf03-cf6c-45e4-9bc2-92f58ea6d23e"))
    path.unlink()
    assert checkpoints.read_meta_properties(DISK, str(path)) is None
    checkpoints.write_meta_properties(DISK, str(path), meta, "Mon Nov 16 00:38:19 UTC 2026")
    assert path.read_text() == META


def test_meta_properties_in_another_order_and_with_gaps(path: Path) -> None:
    path.write_text("! a comment\n\n cluster.id = x=y \nversion=1\n")
    meta = checkpoints.read_meta_properties(DISK, str(path))
    assert meta == MetaProperties("x=y", None, None)
    checkpoints.write_meta_properties(DISK, str(path), meta)
    assert path.read_text() == "#\n#\nversion=1\ncluster.id=x=y\n"


@pytest.mark.parametrize(
    "content",
    ["", "version=0\nbroker.id=1\n", "version=1\nnode.id=one\n", "version=1\ndirectory.id=x\n", "version"],
)
def test_malformed_meta_properties(path: Path, content: str) -> None:
    path.write_text(content)
    with pytest.raises(CorruptCheckpoint):
        checkpoints.read_meta_properties(DISK, str(path))
