"""Delta tables: a batch is there once, of a key the newest row stays."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ottla.base.errors import LocalError
from ottla.pipelines.declare import Table, table
from ottla.pipelines.io import tables
from ottla.pipelines.io.tables import COMPACT_EVERY, append_delta, location, newest, not_older
from tests.support.fake_spark import FakeFrame, FakeSpark

PLAIN = table("t", format="delta")
KEYED = table("t", format="delta", keys=["k"], latest=["day", "time"])


TYPES = pa.schema([("k", pa.string()), ("day", pa.int64()), ("time", pa.int64()), ("v", pa.string())])


def rows(*values: tuple[Any, Any, Any, str]) -> pa.Table:
    names = ("k", "day", "time", "v")
    return pa.Table.from_pylist([dict(zip(names, value, strict=True)) for value in values])


def content(place: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in DeltaTable(place).to_pyarrow_table().to_pylist()), key=str)


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.mark.parametrize("kind", [PLAIN, KEYED])
def test_a_batch_is_committed_once(place: str, kind: Table) -> None:
    batches = [rows(("a", 1, 1, "x")), rows(("b", 1, 1, "y")), rows(("c", 1, 1, "z"))]
    assert [append_delta(place, kind, batch, "q", n) for n, batch in enumerate(batches)] == [True] * 3
    for number in (0, 1, 2):
        assert append_delta(place, kind, batches[number], "q", number) is False
    assert [row[0] for row in content(place)] == ["a", "b", "c"]


def test_another_query_has_batches_of_its_own(place: str) -> None:
    assert append_delta(place, PLAIN, rows(("a", 1, 1, "x")), "q", 5)
    assert append_delta(place, PLAIN, rows(("b", 1, 1, "y")), "other", 0)
    assert len(content(place)) == 2


def test_rows_of_a_key_are_replaced(place: str) -> None:
    append_delta(place, KEYED, rows(("a", 1, 1, "old"), ("b", 1, 1, "stays")), "q", 0)
    append_delta(place, KEYED, rows(("a", 1, 2, "new"), ("c", 1, 1, "more")), "q", 1)
    assert [row[3] for row in content(place)] == ["new", "stays", "more"]


def test_a_late_row_replaces_nothing(place: str) -> None:
    append_delta(place, KEYED, rows(("a", 2, 1, "newest")), "q", 0)
    for _ in range(2):
        append_delta(place, KEYED, rows(("a", 1, 9, "late")), "q", 1)
        assert [row[3] for row in content(place)] == ["newest"]


@pytest.mark.parametrize("batches", [1, 2])
def test_several_rows_of_a_key_in_one_batch_leave_the_newest(place: str, batches: int) -> None:
    if batches == 2:
        append_delta(place, KEYED, rows(("a", 0, 0, "first")), "q", 0)
    many = rows(("a", 1, 2, "late"), ("a", 2, 1, "newest"), ("b", 1, 1, "b"), ("a", 1, 9, "late too"))
    append_delta(place, KEYED, many, "q", 1)
    assert [row[3] for row in content(place)] == ["newest", "b"]


def test_without_an_order_the_last_to_arrive_stays() -> None:
    found = newest(rows(("a", 9, 9, "first"), ("b", 1, 1, "b"), ("a", 1, 1, "last")), ["k"], [])
    assert sorted(found["v"].to_pylist()) == ["b", "last"]


def test_of_equal_rows_the_last_stays() -> None:
    assert newest(rows(("a", 1, 1, "x"), ("a", 1, 1, "y")), ["k"], ["day", "time"])["v"].to_pylist() == ["y"]


def test_an_empty_batch_is_a_batch(place: str) -> None:
    append_delta(place, KEYED, rows(("a", 1, 1, "x")), "q", 0)
    assert append_delta(place, KEYED, rows(("a", 1, 1, "x")).slice(0, 0), "q", 1)
    assert len(content(place)) == 1


TIMES = [None, 1, 2]


@pytest.mark.parametrize("together", [True, False])
def test_rows_are_compared_as_tuples_in_which_null_is_least(place: str, together: bool) -> None:
    """Every pair of an old and a new row has a key of its own; both come in one batch, or one after the other."""
    pairs = {f"{old}-{new}": (old, new) for old, new in product(product(TIMES, TIMES), repeat=2)}
    old_rows = rows(*((key, *old, "old") for key, (old, _) in pairs.items())).cast(TYPES)
    new_rows = rows(*((key, *new, "new") for key, (_, new) in pairs.items())).cast(TYPES)
    batches = [pa.concat_tables([old_rows, new_rows])] if together else [old_rows, new_rows]
    for number, batch in enumerate(batches):
        append_delta(place, KEYED, batch, "q", number)

    def size(moment: tuple[int | None, ...]) -> list[int]:
        return [-1 if each is None else each for each in moment]

    expected = {key: "new" if size(new) >= size(old) else "old" for key, (old, new) in pairs.items()}
    assert {row[0]: row[3] for row in content(place)} == expected


def test_a_null_key_is_one_key(place: str) -> None:
    for number in range(3):
        append_delta(place, KEYED, rows((None, 1, number, f"v{number}")).cast(TYPES), "q", number)
    assert content(place) == [(None, 1, 2, "v2")]


def test_without_an_order_every_row_may_replace() -> None:
    assert not_older([]) is None


MORE, FEWER = rows(("a", 1, 1, "x")).append_column("extra", pa.array([1])), rows(("a", 1, 1, "x")).drop(["v"])


@pytest.mark.parametrize(
    ("kind", "batch"), [(PLAIN, MORE), (KEYED, MORE), (PLAIN, FEWER)], ids=["more", "more by key", "fewer"]
)
def test_other_columns_than_the_tables_are_refused_with_both_named(
    place: str, kind: Table, batch: pa.Table
) -> None:
    append_delta(place, kind, rows(("a", 1, 1, "x")), "q", 0)
    there = "delta table .* has the columns k string, day bigint, time bigint, v string, but the flow writes k string"
    with pytest.raises(LocalError, match=there):
        append_delta(place, kind, batch, "q", 1)
    frame: Any = FakeFrame(FakeSpark(), columns=tuple(batch.column_names))
    flow: Any = None
    with pytest.raises(LocalError, match=there):
        tables.write(frame, flow, table(place, format="delta", keys=kind.keys), "")
    assert content(place) == [("a", 1, 1, "x")]


def test_a_table_with_keys_may_have_columns_that_a_flow_does_not_write(place: str) -> None:
    append_delta(place, KEYED, rows(("a", 1, 1, "x")), "q", 0)
    append_delta(place, KEYED, rows(("a", 1, 2, "")).drop(["v"]), "q", 1)
    assert content(place) == [("a", 1, 2, "x")]


def test_a_value_that_cannot_be_cast_is_reported_with_the_table(place: str) -> None:
    append_delta(place, PLAIN, rows(("a", 1, 1, "x")), "q", 0)
    with pytest.raises(LocalError, match=r"^delta table t with the columns k string.*: .*'soon'"):
        append_delta(place, PLAIN, rows(("b", "soon", 1, "x")), "q", 1)


def test_small_files_are_joined_and_old_ones_deleted(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        append_delta(place, PLAIN, rows(("a", 1, number, "x")), "q", number)
    monkeypatch.setattr(tables, "RETAINED_H", 0)
    assert len(list(Path(place).glob("*.parquet"))) == 5
    tables.compact_files(place)
    assert len(list(Path(place).glob("*.parquet"))) == 1
    assert len(content(place)) == 5
    assert append_delta(place, PLAIN, rows(("a", 1, 4, "x")), "q", 4) is False, "still known"


def test_what_was_replaced_a_moment_ago_is_kept(place: str) -> None:
    """A flow that looks the table up reads the version of its start."""
    for number in range(5):
        append_delta(place, PLAIN, rows(("a", 1, number, "x")), "q", number)
    before = DeltaTable(place)
    tables.compact_files(place)
    assert len(DeltaTable(place).file_uris()) == 1
    assert before.to_pyarrow_table().num_rows == 5


def test_a_delta_table_is_read_by_its_log(place: str) -> None:
    """Files that were replaced still lie beside the others."""
    append_delta(place, KEYED, rows(("a", 1, 1, "old")), "q", 0)
    append_delta(place, KEYED, rows(("a", 1, 2, "new")), "q", 1)
    (newest_file,) = DeltaTable(place).file_uris()
    assert len(list(Path(place).glob("*.parquet"))) == 2
    spark = MagicMock()
    tables.read(spark, table(place, format="delta"), "")
    spark.read.schema.assert_called_once_with(tables._columns(DeltaTable(place).schema()))
    parquet = spark.read.schema.return_value.option.return_value.parquet
    parquet.assert_called_once_with(newest_file)


def test_a_table_is_tidied_now_and_then(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied: list[str] = []
    monkeypatch.setattr(tables, "compact_files", tidied.append)
    batch = MagicMock()
    batch.sparkSession.sparkContext.getLocalProperty.return_value = "q"
    batch.toArrow.return_value = rows(("a", 1, 1, "x"))
    commit = tables.delta_batch(place, PLAIN)
    for number in (0, 1, COMPACT_EVERY - 1, COMPACT_EVERY):
        commit(batch, number)
    assert tidied == [place]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("scores", "/tables/scores"), ("/else/where", "/else/where"), ("s3://bucket/t", "s3://bucket/t")],
)
def test_a_table_name_is_a_path_below_the_directory_of_tables(name: str, expected: str) -> None:
    assert location(Table(name), "/tables/") == expected
