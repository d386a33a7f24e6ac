from __future__ import annotations

import os
from collections.abc import Sequence

import pytest
from pyspark.serializers import CPickleSerializer

from ottla.base.errors import LocalError
from ottla.client.raw import ClientSettings, Cluster, TransactionDescription, TransactionEnd
from ottla.client.raw.admin import OPEN_STATE, OpenTransactions
from ottla.spark.sink import transactions
from ottla.spark.sink.commit_log import PreparedTransaction
from ottla.spark.sink.transactions import (
    NAMES,
    QueryTransactions,
    Task,
    TaskCommitMessage,
    TransactionNames,
    run_prefix,
)

RUN = run_prefix("sink", "query", "b1106fbd-9444-4e28-933d-95c719b6f013")


def test_a_transactional_id_contains_its_query_and_run() -> None:
    name = TransactionNames().take(RUN, 0)
    assert name.startswith("sink.query.b1106fbd.")
    assert name.endswith(".0")


def test_tasks_of_one_batch_have_names_of_their_own() -> None:
    names = TransactionNames()
    assert len({names.take(RUN, 4) for _ in range(5)}) == 5


def test_names_are_used_again_in_later_batches_only() -> None:
    names = TransactionNames()
    first = [names.take(RUN, 4), names.take(RUN, 4)]
    assert names.take(RUN, 5) == first[0]
    assert names.take(RUN, 4) not in first
    assert names.take(RUN, 6) == first[0]
    assert names.take("other.", 6) != first[0]


def test_processes_share_no_names() -> None:
    names = TransactionNames()
    before = names.take(RUN, 0)
    names.reset()
    assert names.take(RUN, 0) != before


def test_a_forked_worker_forgets_the_names_of_its_parent() -> None:
    reading, writing = os.pipe()
    ours = NAMES.take(RUN, 0)
    child = os.fork()
    if child == 0:
        os.write(writing, NAMES.take(RUN, 0).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 200).decode() != ours
    os.close(reading)
    os.close(writing)


def test_messages_travel() -> None:
    message = TaskCommitMessage(Task("q", "r", 1, 2, 0), 5, 6, PreparedTransaction("id", 7, 8))
    serializer = CPickleSerializer()
    assert serializer.loads(serializer.dumps(message)) == message


@pytest.mark.parametrize("transaction", [None, PreparedTransaction("sink.é.0", 1 << 40, 3)])
def test_messages_travel_in_rows(transaction: PreparedTransaction | None) -> None:
    message = TaskCommitMessage(Task("q", "r", 1, 2, 0), 5, 6, transaction)
    again = TaskCommitMessage.from_json(message.to_json())
    assert again == message
    assert isinstance(again.transaction, PreparedTransaction | None)


@pytest.mark.parametrize(
    "text", ["", "null", "[]", '[["q","r",1,2],1,1,null]', '[["q","r",1,2,0],1,1,["id",1]]']
)
def test_what_is_no_message_is_refused(text: str) -> None:
    with pytest.raises(LocalError, match="not a message of the sink"):
        TaskCommitMessage.from_json(text)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 100])
def test_results_are_in_the_order_of_the_requests(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    def end(_: object, wanted: Sequence[PreparedTransaction], commit: bool) -> list[TransactionEnd]:
        assert commit
        return [list(TransactionEnd)[one.producer_id % len(TransactionEnd)] for one in wanted]

    monkeypatch.setattr(transactions, "end_transactions", end)
    cluster = Cluster(ClientSettings.from_options({"bootstrap.servers": "nowhere:1"}))
    asked = [PreparedTransaction(f"id-{number}", number, 0) for number in range(count)]
    found = QueryTransactions(cluster, "sink", "query", "run", 0).end(asked, commit=True)
    assert found == [list(TransactionEnd)[number % len(TransactionEnd)] for number in range(count)]


class Coordinator:
    """Answers for the coordinators of all ids."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: dict[str, TransactionDescription] = {}
        self.unheard = 0
        """So many lists are not complete, and lack everything."""
        self.lists = 0
        monkeypatch.setattr(transactions, "describe_transaction", lambda _, name: self.known.get(name))
        monkeypatch.setattr(transactions, "list_open_transactions", self._list)
        cluster = Cluster(ClientSettings.from_options({"bootstrap.servers": "nowhere:1"}))
        self.query = QueryTransactions(cluster, "sink", "query", "run", 0)

    def open(self, name: str, producer_id: int, epoch: int) -> PreparedTransaction:
        described = TransactionDescription(OPEN_STATE, producer_id, epoch, 60_000, 1, frozenset())
        self.known[name] = described
        return PreparedTransaction(name, producer_id, epoch)

    def _list(self, _: Cluster, prefix: str) -> OpenTransactions:
        self.lists += 1
        if self.lists <= self.unheard:
            return OpenTransactions({}, complete=False)
        found = {
            name: described.producer_id
            for name, described in self.known.items()
            if name.startswith(prefix) and described.state == OPEN_STATE
        }
        return OpenTransactions(found, complete=True)


@pytest.fixture
def coordinator(monkeypatch: pytest.MonkeyPatch) -> Coordinator:
    return Coordinator(monkeypatch)


@pytest.mark.parametrize("others", [0, 5])
def test_open_is_what_the_very_producer_has_open(coordinator: Coordinator, others: int) -> None:
    """One by one, or by a list where there are many. A producer that has taken over the id has another epoch, or id."""
    many = [coordinator.open(f"sink.query.{number}", number, 0) for number in range(others)]
    mine = coordinator.open("sink.query.mine", 100, 3)
    assert coordinator.query.are_open([mine, *many]) == dict.fromkeys([mine, *many], True)
    coordinator.open("sink.query.mine", 101, 0)
    assert not coordinator.query.are_open([mine, *many])[mine]
    coordinator.known["sink.query.mine"] = coordinator.known["sink.query.mine"]._replace(
        state="CompleteAbort"
    )
    assert not coordinator.query.are_open([PreparedTransaction("sink.query.mine", 101, 0), *many])[
        PreparedTransaction("sink.query.mine", 101, 0)
    ]


def test_a_single_transaction_is_known_by_its_epoch_too(coordinator: Coordinator) -> None:
    mine = coordinator.open("sink.query.mine", 100, 3)
    coordinator.open("sink.query.mine", 100, 4)
    assert not coordinator.query.are_open([mine])[mine]


def test_a_list_that_is_not_complete_is_requested_again(coordinator: Coordinator) -> None:
    left = coordinator.open(f"{run_prefix('sink', 'query', 'run')}p.0", 1, 0)
    coordinator.unheard = 1
    assert coordinator.query.abandoned(()) == [left]
    assert coordinator.lists == 2
