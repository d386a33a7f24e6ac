"""DescribeTransactions and ListTransactions."""

from __future__ import annotations

import re

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.txn.responses import ListFilters
from tests.support.txn_coordinator import T0, T1, TxnBench


def names(bench: TxnBench, filters: ListFilters) -> list[str]:
    return [each.transactional_id for each in bench.machine.list(filters)]


def several() -> TxnBench:
    bench = TxnBench()
    bench.opened(T0, name="open")
    bench.started("idle")
    bench.commit(bench.opened(T0, name="ending"), name="ending")
    return bench


def test_all_transactions_are_listed_with_their_states() -> None:
    bench = several()
    assert bench.machine.list(ListFilters()) == [
        ("open", 1001, "Ongoing"),
        ("idle", 1002, "Empty"),
        ("ending", 1003, "PrepareCommit"),
    ]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (ListFilters(states=frozenset({"Ongoing", "PrepareCommit"})), ["open", "ending"]),
        (ListFilters(states=frozenset({"NoSuchState"})), []),
        (ListFilters(producer_ids=frozenset({1002, 7})), ["idle"]),
        (ListFilters(matches=re.compile("i.*").fullmatch), ["idle"]),
        (ListFilters(states=frozenset({"Empty"}), producer_ids=frozenset({1001})), []),
    ],
)
def test_all_filters_must_match(filters: ListFilters, expected: list[str]) -> None:
    assert names(several(), filters) == expected


def test_the_duration_filter_selects_older_transactions() -> None:
    bench = TxnBench()
    bench.opened(T0, name="older")
    bench.bench.advance(1)
    bench.opened(T0, name="newer")
    bench.bench.advance(9)
    assert names(bench, ListFilters(duration_ms=9)) == ["older"]
    assert names(bench, ListFilters(duration_ms=8)) == ["older", "newer"]


def test_a_description_names_the_partitions_that_wait_for_their_markers() -> None:
    bench = TxnBench()
    producer = bench.opened(T0, T1)
    assert bench.machine.describe("id").partitions == {T0, T1}
    bench.commit(producer)
    bench.markers.acknowledge(ErrorCode.NONE, T0)
    described = bench.machine.describe("id")
    assert described.partitions == {T1}
    assert described.transaction == bench.transaction()


@pytest.mark.parametrize(
    ("name", "code"), [("", ErrorCode.INVALID_REQUEST), ("other", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)]
)
def test_an_unknown_id_cannot_be_described(name: str, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        TxnBench().machine.describe(name)
    assert refused.value.code is code
