"""Copies a topic to another one exactly once: consume, produce and commit the offsets in one transaction.

The first argument is a JSON object: bootstrap, group, source, target, size (records in a transaction),
transactional_id, mode (`assign`: all partitions by hand; `classic`: as the static member of a group, whose
successor has its place at once; `consumer`: as the member of a KIP-848 group, whose successor waits for the
end of its session), journal (optional: the beginning of the name of a file for the history, see `Journal`). A record
keeps its partition. A transaction that is not full is committed when nothing more comes.
Ends only by a signal, or with EXIT_FENCED when its producer is of no more use.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

EXIT_FENCED = 3
TIMEOUT_S = 60.0
QUIET_S = 0.3


class Journal:
    """The history of the copier, one JSON array per line, in a file that `tests.chaos.copy_history` reads.

    Times are those of the monotonic clock, which all processes of a machine share. What a transaction contains is in
    the file before its commit is requested.
    """

    def __init__(self, path: str) -> None:
        self._file = Path(f"{path}.{os.getpid()}").open("a", encoding="utf-8")  # noqa: SIM115 - until the end
        self._count = 0
        self.transaction = ""

    def write(self, event: str, *facts: object) -> None:
        self._file.write(json.dumps([event, self.transaction, time.monotonic(), *facts]) + "\n")

    def begin(self) -> None:
        self._count += 1
        self.transaction = f"{os.getpid()}-{self._count}"
        self.write("began")

    def flush(self, event: str) -> None:
        self.write(event)
        self._file.flush()

    def copied(self, message: Message) -> bytes:
        """The value of the copy: the original and the transaction, so that values are unique."""
        value: bytes = message.value() + f"@{self.transaction}".encode()
        self.write("read", message.partition(), message.offset(), message.value().decode())
        self.write("sent", value.decode())
        return value

    def delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.write("acknowledged", message.partition(), message.offset(), message.value().decode())


class Copier:
    def __init__(self, settings: dict[str, str]) -> None:
        self.source = settings["source"]
        self.target = settings["target"]
        self.size = int(settings["size"])
        self.mode = settings["mode"]
        connection = {
            "bootstrap.servers": settings["bootstrap"],
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            # Having begun anew with its bootstrap servers, librdkafka 2.16 waits for ever for a group's
            # coordinator that it knew before.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
            "error_cb": lambda _: None,
        }
        self.producer = Producer(
            {
                **connection,
                "transactional.id": settings["transactional_id"],
                "transaction.timeout.ms": 60_000,
                "linger.ms": 2,
            }
        )
        grouped = {} if self.mode == "assign" else {"group.protocol": self.mode}
        if self.mode == "classic":
            grouped["group.instance.id"] = "copier"
        self.consumer = Consumer(
            {
                **connection,
                **grouped,
                "group.id": settings["group"],
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self.moved = False
        path = settings.get("journal")
        self.journal = None if path is None else Journal(path)

    def run(self) -> None:
        self.producer.init_transactions(TIMEOUT_S)
        if self.mode == "assign":
            partitions = self.consumer.list_topics(self.source, TIMEOUT_S).topics[self.source].partitions
            self.consumer.assign([TopicPartition(self.source, number) for number in partitions])
        else:
            self.consumer.subscribe([self.source], on_revoke=self.on_revoke, on_lost=self.on_revoke)
        while True:
            first = self.consumer.poll(TIMEOUT_S)
            if first is not None and first.error() is None:
                self.copy(first)

    def on_revoke(self, _: Consumer, __: list[TopicPartition]) -> None:
        self.moved = True

    def copy(self, first: Message) -> None:
        """One transaction: committed, or aborted and the consumer where it was before."""
        self.moved = False
        self.producer.begin_transaction()
        if self.journal is not None:
            self.journal.begin()
        try:
            offsets = self.produce(first)
            if not self.moved:
                metadata = self.consumer.consumer_group_metadata()
                self.again(lambda: self.producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S))
                self.record("requested")
                self.again(lambda: self.producer.commit_transaction(TIMEOUT_S))
                self.record("committed")
                return
        except KafkaException as failure:
            error = failure.args[0]
            # Until the abort, `produce` only reports that the state does not permit it.
            if not error.txn_requires_abort() and error.code() != KafkaError._STATE:
                raise
        self.again(lambda: self.producer.abort_transaction(TIMEOUT_S))
        self.record("aborted")
        self.rewind()

    def record(self, event: str) -> None:
        """Record the end of a transaction, or the request for it, after the results of all its records."""
        if self.journal is not None:
            self.producer.flush(TIMEOUT_S)
            self.journal.flush(event)

    def produce(self, first: Message) -> list[TopicPartition]:
        message: Message | None = first
        next_offsets: dict[int, int] = {}
        for number in range(self.size):
            if message is None or self.moved:
                break
            if message.error() is None:
                place = message.partition()
                journal = self.journal
                self.producer.produce(
                    self.target,
                    message.value() if journal is None else journal.copied(message),
                    key=message.key(),
                    partition=place,
                    on_delivery=None if journal is None else journal.delivered,
                )
                self.producer.poll(0)
                next_offsets[place] = message.offset() + 1
            if number + 1 < self.size:
                message = self.consumer.poll(QUIET_S)
        return [TopicPartition(self.source, place, offset) for place, offset in next_offsets.items()]

    @staticmethod
    def again(call) -> None:  # type: ignore[no-untyped-def]
        """Repeats what the client says may be repeated."""
        while True:
            try:
                return call()
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise

    def rewind(self) -> None:
        places = self.consumer.assignment()
        for place in self.again_committed(places):
            self.consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))

    def again_committed(self, places: list[TopicPartition]) -> list[TopicPartition]:
        while True:
            try:
                return self.consumer.committed(places, TIMEOUT_S)
            except KafkaException as failure:
                if failure.args[0].fatal():
                    raise


def main() -> None:
    try:
        Copier(json.loads(sys.argv[1])).run()
    except KafkaException as failure:
        print(failure, file=sys.stderr, flush=True)
        sys.exit(EXIT_FENCED if failure.args[0].fatal() else 1)


if __name__ == "__main__":
    main()
