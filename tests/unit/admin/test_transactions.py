"""Which open transactions of partitions hang."""

from __future__ import annotations

import pytest

from ottla.admin.transactions import ProducerInfo, why_hanging
from ottla.base.ids import TopicPartition
from ottla.client.raw import TransactionDescription

PRODUCER = ProducerInfo("t", 0, 7, 1, 0, 0, 0, 100)
HERE, ELSEWHERE = frozenset({TopicPartition("t", 0)}), frozenset({TopicPartition("t", 1)})


def description(state: str, partitions: frozenset[TopicPartition]) -> TransactionDescription:
    return TransactionDescription(state, 7, 1, 60_000, 0, partitions)


@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_a_transaction_that_its_coordinator_has_open_does_not_hang(state: str) -> None:
    assert why_hanging(PRODUCER, {7: "id"}, {"id": description(state, HERE)}) is None


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ({}, "no coordinator knows the producer id"),
        ({"id": None}, "no coordinator knows the producer id"),
        ({"id": description("Ongoing", ELSEWHERE)}, "without this partition"),
        ({"id": description("CompleteCommit", frozenset())}, "no open transaction (CompleteCommit)"),
    ],
)
def test_others_hang(described: dict[str, TransactionDescription | None], reason: str) -> None:
    assert reason in (why_hanging(PRODUCER, {7: "id"} if described else {}, described) or "")
