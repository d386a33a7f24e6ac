"""Any sequence of requests about one transactional id, by its producers of today and yesterday, ends alike.

Seeded: a sequence is the same in every run and on both brokers. Left out is what differs on purpose: a fenced
producer that starts anew while its successor's transaction is open (Kafka aborts that one first).
"""

from __future__ import annotations

from random import Random

from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.end_txn import EndTxnRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player
from tests.compat.differential.transactions import RAISES_EPOCH, Client, number

SEQUENCES = 6
STEPS = 25
STEP_KINDS = ("start", "go on", "add", "add", "add", "end", "end", "end", "verify")
INIT, VERIFY = 5, 5
ADD_VERSIONS = (3, 5)


class _Run:
    """One sequence; `known` are all producer ids and epochs that were returned."""

    def __init__(self, player: Player, seed: int, topic: str) -> None:
        self._player = player
        self._rng = Random(seed)
        self._topic = topic
        self._client = Client(player, f"id-{seed}")
        self._client.start()
        self._known = [(self._client.id, self._client.epoch)]

    def step(self, label: str) -> None:
        kind = self._rng.choice(STEP_KINDS)
        back = min(self._rng.choice((0, 0, 0, 0, 1, 2)), len(self._known) - 1)
        self._client.id, self._client.epoch = self._known[-1 - back]
        label = f"{label}: {kind}, epoch {self._client.epoch}"
        match kind:
            case "start":
                self._start(label)
            case "go on" if self._client.state().transaction_state != "Ongoing":
                self._start(label, producer_id=self._client.id, producer_epoch=self._client.epoch)
            case "add":
                version = self._rng.choice(ADD_VERSIONS)
                asked = self._client.adding(self._topic, self._rng.randrange(2), version=version)
                self._player.ask(label, asked, version)
            case "end":
                self._end(label, committed=self._rng.random() < 0.5)
            case "verify":
                both = [AddPartitionsToTxnTopic(name=self._topic, partitions=[0, 1])]
                transaction = self._client.transaction(both, verify_only=True)
                self._player.ask(label, AddPartitionsToTxnRequest(transactions=[transaction]), VERIFY)
        self._client.settle()
        self._client.look(f"{label}, then")

    def _start(self, label: str, **named: int) -> None:
        answer = self._player.quietly(self._client.starting(**named), INIT)
        number(self._player, label, answer)
        self._learn(answer.producer_id, answer.producer_epoch)

    def _end(self, label: str, *, committed: bool) -> None:
        answer = self._player.ask(f"{label}, {committed}", self._client.ending(committed=committed))
        if self._player.version >= RAISES_EPOCH:
            self._learn(answer.producer_id, answer.producer_epoch)

    def _learn(self, producer_id: int, epoch: int) -> None:
        if producer_id >= 0 and (producer_id, epoch) not in self._known:
            self._known.append((producer_id, epoch))


@scenario(EndTxnRequest)
def transactions_by_chance(player: Player) -> None:
    topic = player.create("t", 2)
    for seed in range(SEQUENCES):
        run = _Run(player, seed, topic)
        for turn in range(STEPS):
            run.step(f"{seed}, step {turn}")
