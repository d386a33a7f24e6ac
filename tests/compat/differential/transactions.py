"""Transactional ids: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, and what administrators see."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player

COMING = (14, 15, 16, 51)
STABLE_INIT = 5
FROM_BROKERS = 4
RAISES_EPOCH = 5
INIT_ANY, ADD_ANY, END_ANY = 5, 3, 5


class Client:
    """A transactional producer, and the name of its id in transcripts."""

    def __init__(self, player: Player, name: str = "id") -> None:
        self.player = player
        self.name = player.topic(name)
        self.id, self.epoch = -1, -1
        find = FindCoordinatorRequest(key=self.name, key_type=1)
        player.until(lambda: player.quietly(find, 3).error_code == 0)

    def start(self, **options: Any) -> Any:
        """Take over the transactional id, however long it takes."""
        asked = self.starting(**options)
        answers: list[Any] = []
        self.player.until(lambda: self._answer(asked, answers).error_code not in COMING)
        assert answers[-1].error_code == 0, answers[-1]
        self.id, self.epoch = answers[-1].producer_id, answers[-1].producer_epoch
        self.player.secrets.setdefault("producer_id", {})[self.id] = f"id of {self.name}"
        return answers[-1]

    def _answer(self, asked: InitProducerIdRequest, answers: list[Any]) -> Any:
        answers.append(self.player.quietly(asked, INIT_ANY))
        return answers[-1]

    def starting(self, timeout_ms: int = 60_000, **options: Any) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms, **options)

    def adding(self, topic: str, *partitions: int, version: int | None = None) -> AddPartitionsToTxnRequest:
        version = self.player.version if version is None else version
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))]
        if version >= FROM_BROKERS:
            return AddPartitionsToTxnRequest(transactions=[self.transaction(topics)])
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )

    def transaction(
        self, topics: list[AddPartitionsToTxnTopic], *, verify_only: bool = False
    ) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            verify_only=verify_only,
            topics=topics,
        )

    def add(self, topic: str, *partitions: int) -> None:
        answer = self.player.quietly(self.adding(topic, *partitions, version=ADD_ANY), ADD_ANY)
        codes = [
            p.partition_error_code
            for t in answer.results_by_topic_v3_and_below
            for p in t.results_by_partition
        ]
        assert not any(codes), answer

    def ending(self, *, committed: bool, id_ahead: int = 0, ahead: int = 0) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id + id_ahead,
            producer_epoch=self.epoch + ahead,
            committed=committed,
        )

    def state(self) -> Any:
        asked = DescribeTransactionsRequest(transactional_ids=[self.name])
        return self.player.quietly(asked, 0).transaction_states[0]

    def settle(self) -> None:
        """Until what was decided is complete."""
        self.player.until(lambda: not self.state().transaction_state.startswith("Prepare"))

    def look(self, label: str) -> None:
        self.player.ask(label, DescribeTransactionsRequest(transactional_ids=[self.name]), 0)


def number(player: Player, label: str, answer: Any) -> None:
    """Keep an answer to InitProducerId without the id that was invented."""
    player.keep(label, (answer.error_code, answer.producer_epoch))


@scenario(InitProducerIdRequest, until=STABLE_INIT)
def transactional_ids(player: Player) -> None:
    client, topic = Client(player), player.create("t")
    client.start()
    for label in ("again", "and again"):
        number(player, label, player.quietly(client.starting()))
    for timeout_ms in (900_000, 900_001, 1, 0, -1):
        number(player, f"timeout {timeout_ms}", player.quietly(client.starting(timeout_ms)))
    client.look("described")
    client.start()
    client.add(topic, 0)
    number(player, "with an open transaction", player.quietly(client.starting()))
    client.settle()
    client.look("aborted")
    number(player, "after its abort", player.quietly(client.starting()))
    player.ask("an empty id", InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1))


@scenario(InitProducerIdRequest, since=3, until=STABLE_INIT)
def transactional_ids_by_their_producers(player: Player) -> None:
    client, topic = Client(player), player.create("t")
    client.start()
    me = {"producer_id": client.id, "producer_epoch": client.epoch}
    number(player, "goes on", player.quietly(client.starting(**me)))
    number(player, "its answer was lost", player.quietly(client.starting(**me)))
    number(player, "an epoch ahead", player.quietly(client.starting(**{**me, "producer_epoch": 5})))
    number(player, "another id", player.quietly(client.starting(**{**me, "producer_id": client.id + 77})))
    number(player, "an id alone", player.quietly(client.starting(producer_id=client.id)))
    number(player, "an epoch alone", player.quietly(client.starting(producer_epoch=0)))
    old = {"producer_id": client.id, "producer_epoch": client.start().producer_epoch}
    client.start()
    number(player, "after another", player.quietly(client.starting(**old)))
    client.add(topic, 0)
    now = {"producer_id": client.id, "producer_epoch": client.epoch}
    number(player, "with its own open transaction", player.quietly(client.starting(**now)))
    client.settle()
    number(player, "after its abort", player.quietly(client.starting(**now)))
    unknown = Client(player, "never seen")
    number(player, "of an unknown id", player.quietly(unknown.starting(producer_id=5, producer_epoch=5)))


@scenario(AddPartitionsToTxnRequest)
def add_partitions(player: Player) -> None:
    client, topic = Client(player), player.create("t", 3)
    client.start()
    player.ask("two", client.adding(topic, 0, 1))
    client.look("open")
    player.ask("one of them and another", client.adding(topic, 1, 2))
    player.ask("all there", client.adding(topic, 0, 1, 2))
    player.ask("a partition that is not there", client.adding(topic, 0, 99))
    player.ask("a topic that is not there", client.adding(player.topic("nowhere"), 0))
    player.ask("none", client.adding(topic))
    client.epoch += 1
    player.ask("an epoch ahead", client.adding(topic, 0))
    client.epoch -= 2
    player.ask("an epoch behind", client.adding(topic, 0))
    client.epoch += 1
    client.id += 1000
    player.ask("another producer", client.adding(topic, 0))
    client.id -= 1000
    name, client.name = client.name, player.topic("other")
    player.ask("an unknown id", client.adding(topic, 0))
    client.name = ""
    player.ask("no id", client.adding(topic, 0))
    client.name = name
    client.look("as it was")
    if player.version < FROM_BROKERS:
        player.ask("an internal topic", client.adding("__transaction_state", 0))


@scenario(AddPartitionsToTxnRequest, since=FROM_BROKERS)
def verify_partitions(player: Player) -> None:
    client, other, topic = Client(player), Client(player, "other"), player.create("t", 3)
    client.start()
    other.start()
    three = [AddPartitionsToTxnTopic(name=topic, partitions=[0, 1, 2])]
    verify = AddPartitionsToTxnRequest(transactions=[client.transaction(three, verify_only=True)])
    player.ask("before it is open", verify)
    client.add(topic, 0, 2)
    player.ask("two of three", verify)
    both = [client.transaction(three, verify_only=True), other.transaction(three)]
    player.ask("verified and added", AddPartitionsToTxnRequest(transactions=both))
    client.look("as it was")
    other.look("added")
    client.epoch += 1
    fenced = AddPartitionsToTxnRequest(transactions=[client.transaction(three, verify_only=True)])
    player.ask("an epoch ahead", fenced)


@scenario(AddOffsetsToTxnRequest)
def add_offsets(player: Player) -> None:
    client = Client(player)
    client.start()

    def asked(**changes: Any) -> AddOffsetsToTxnRequest:
        named = {
            "transactional_id": client.name,
            "producer_id": client.id,
            "producer_epoch": client.epoch,
            "group_id": "g",
        }
        return AddOffsetsToTxnRequest(**{**named, **changes})

    player.ask("a group", asked())
    player.ask("again", asked())
    player.ask("the empty group", asked(group_id=""))
    client.look("open")
    player.ask("an epoch ahead", asked(producer_epoch=client.epoch + 1))
    player.ask("another producer", asked(producer_id=client.id + 1000))
    player.ask("an unknown id", asked(transactional_id=player.topic("other")))
    player.ask("no id", asked(transactional_id=""))


@scenario(EndTxnRequest)
def end_transactions(player: Player) -> None:
    client, topic = Client(player), player.create("t")
    raised = 1 if player.version >= RAISES_EPOCH else 0
    for committed in (True, False):
        client.start()
        client.add(topic, 0)
        player.ask(f"an epoch ahead, {committed}", client.ending(committed=committed, ahead=1))
        player.ask(f"an epoch behind, {committed}", client.ending(committed=committed, ahead=-1))
        player.ask(f"another producer, {committed}", client.ending(committed=committed, id_ahead=1000))
        player.ask(f"by its producer, {committed}", client.ending(committed=committed))
        client.settle()
        client.look(f"complete, {committed}")
        player.ask(f"repeated, {committed}", client.ending(committed=committed))
        player.ask(f"the other way, {committed}", client.ending(committed=not committed))
        client.epoch += raised
        player.ask(f"the next, empty, committed, after {committed}", client.ending(committed=True))
        player.ask(f"the next, empty, aborted, after {committed}", client.ending(committed=False))
        client.settle()
        client.look(f"empty, aborted, after {committed}")
    client.start()
    player.ask("nothing to commit", client.ending(committed=True))
    player.ask("nothing to abort", client.ending(committed=False))
    client.name = player.topic("other")
    player.ask("an unknown id", client.ending(committed=True))
    client.name = ""
    player.ask("no id", client.ending(committed=True))


@scenario(EndTxnRequest)
def a_transaction_after_the_other(player: Player) -> None:
    client, topic = Client(player), player.create("t", 2)
    client.start()
    for turn in range(3):
        client.add(topic, turn % 2)
        answer = player.ask(f"turn {turn}", client.ending(committed=turn != 1))
        if player.version >= RAISES_EPOCH:
            client.id, client.epoch = answer.producer_id, answer.producer_epoch
        client.settle()
        client.look(f"after {turn}")


@scenario(DescribeTransactionsRequest)
def describe_transactions(player: Player) -> None:
    client, topic = Client(player), player.create("t", 2)
    client.start(timeout_ms=5000)
    asked = DescribeTransactionsRequest(
        transactional_ids=[client.name, player.topic("unknown"), "", client.name]
    )
    player.ask("idle", asked)
    client.add(topic, 0)
    player.ask("open", asked)
    player.ask("none", DescribeTransactionsRequest(transactional_ids=[]))


@scenario(ListTransactionsRequest)
def list_transactions(player: Player) -> None:
    idle, busy, topic = Client(player, "idle"), Client(player, "busy"), player.create("t")
    idle.start()
    busy.start()
    busy.add(topic, 0)
    ids = [idle.id, busy.id]
    player.ask("both", ListTransactionsRequest(producer_id_filters=ids))
    for states in (["Ongoing"], ["Empty", "Nonsense"], ["Nonsense"], ["Dead"], ["ongoing"]):
        asked = ListTransactionsRequest(producer_id_filters=ids, state_filters=states)
        player.ask(f"{states}", asked)
    if player.version >= 1:
        for duration in (-1, 0, 3_600_000):
            asked = ListTransactionsRequest(producer_id_filters=ids, duration_filter=duration)
            player.ask(f"longer than {duration}", asked)
    if player.version >= 2:
        for pattern in ("", player.topic("i.*"), "i", "(", "*", ".*busy", "(?=x)", "[[:word:]-]+"):
            asked = ListTransactionsRequest(producer_id_filters=ids, transactional_id_pattern=pattern)
            player.ask(f"pattern {pattern}", asked)
