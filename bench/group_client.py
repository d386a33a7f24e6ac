"""confluent-kafka in groups and transactions, as a load of its own process.

    python -m bench.group_client own BOOTSTRAP TOPIC PARTITIONS MEMBERS PROTOCOL
    python -m bench.group_client victim BOOTSTRAP TOPIC GROUP PROTOCOL
    python -m bench.group_client transactions BOOTSTRAP TOPIC RECORDS SECONDS

`own` tells how long it takes until the members own all partitions, and own them again after one of them, the
`victim` (a process), was killed: the session timeout of both brokers is 6 s, and part of that figure.
`transactions` runs eight producers at once and counts transactions committed. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SESSION_TIMEOUT_MS = 6000
TIMEOUT_S = 120.0
PRODUCERS = 8


class Member:
    """A member that polls in a thread and knows what it owns."""

    def __init__(self, bootstrap: str, topic: str, group: str, protocol: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol}
        if protocol == "classic":
            settings |= {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 1000,
                "partition.assignment.strategy": "cooperative-sticky",
            }
        self.owned: set[int] = set()
        self.stopping = False
        self._consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._lost, on_lost=self._lost)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}

    def _run(self) -> None:
        while not self.stopping:
            self._consumer.poll(0.05)
        self._consumer.close()


def wait_until_owned(members: list[Member], count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while sum(len(member.owned) for member in members) != count or not all(m.owned for m in members):
        if time.monotonic() > deadline:
            raise SystemExit(f"{sum(len(m.owned) for m in members)} of {count} partitions are owned")
        time.sleep(0.005)


def own(bootstrap: str, topic: str, partitions: int, members: int, protocol: str) -> dict[str, float]:
    group = f"own-{protocol}-{os.getpid()}"
    begin = time.monotonic()
    alive = [Member(bootstrap, topic, group, protocol) for _ in range(members)]
    wait_until_owned(alive, partitions)
    owned_s = time.monotonic() - begin
    command = [sys.executable, "-m", "bench.group_client", "victim", bootstrap, topic, group, protocol]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        held = int(victim.stdout.readline())
        wait_until_owned(alive, partitions - held)
        begin = time.monotonic()
        victim.send_signal(signal.SIGKILL)
        wait_until_owned(alive, partitions)
        again_s = time.monotonic() - begin
    for member in alive:
        member.stopping = True
    for member in alive:
        member.thread.join(TIMEOUT_S)
    return {"own_s": owned_s, "again_s": again_s}


def victim(bootstrap: str, topic: str, group: str, protocol: str) -> None:
    """Says how much it owns once that has not changed for a while, then waits to be killed."""
    member = Member(bootstrap, topic, group, protocol)
    held, since = 0, time.monotonic()
    while not held or time.monotonic() - since < 2:
        if len(member.owned) != held:
            held, since = len(member.owned), time.monotonic()
        time.sleep(0.01)
    print(held, flush=True)
    signal.pause()


def transactions(bootstrap: str, topic: str, records: int, seconds: float) -> dict[str, float]:
    done = [0] * PRODUCERS
    failures: list[KafkaException] = []
    ready, go = threading.Barrier(PRODUCERS + 1), threading.Event()
    stop = threading.Event()

    def work(number: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"bench-{os.getpid()}-{number}",
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        producer.init_transactions(60)
        payload = os.urandom(100)
        try:
            while not stop.is_set():
                producer.begin_transaction()
                for _ in range(records):
                    producer.produce(topic, payload, partition=number)
                producer.commit_transaction(60)
                if done[number] == 0:
                    ready.wait()
                    go.wait()
                done[number] += 1
        except KafkaException as failure:
            failures.append(failure)
            ready.abort()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    ready.wait()
    begin = time.monotonic()
    go.set()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit(f"a transaction failed: {failures[0]}")
    return {"transactions_per_s": sum(done) / (time.monotonic() - begin)}


def main(action: str, bootstrap: str, topic: str, *rest: str) -> None:
    if action == "victim":
        victim(bootstrap, topic, rest[0], rest[1])
    elif action == "own":
        print(json.dumps(own(bootstrap, topic, int(rest[0]), int(rest[1]), rest[2])))
    else:
        print(json.dumps(transactions(bootstrap, topic, int(rest[0]), float(rest[1]))))


if __name__ == "__main__":
    main(*sys.argv[1:])
