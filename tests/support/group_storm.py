"""A consumer group under a storm: members join, leave, are killed and paused, the broker dies and comes back.

A `Storm` runs programs that host members (see `tests.support.members` for their contract), produces records
for them, looks at the committed offsets all the while, and reads the one file in which everybody writes what
happens. `finish` says whether a group may do what this one did.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.group_history import GroupHistory
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
HEARTBEAT_MS = 300
TIMEOUT_S = 60.0
LEAVE_TIMEOUT_S = 30.0
LOOK_EVERY_S = 0.1
OFFSET_FETCH_TIMEOUT_S = 2.0


def broker_settings(session_ms: int) -> dict[str, str]:
    """A broker that allows short sessions, so that a test of their end is short, too."""
    return {
        "group.initial.rebalance.delay.ms": "100",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(session_ms),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "offsets.topic.num.partitions": "4",
    }


@dataclass(frozen=True)
class Client:
    """A program that hosts members, and how they share out partitions."""

    name: str
    command: Callable[[], Sequence[str]]
    protocol: str


def python_client(module: str, protocol: str) -> Client:
    command = [sys.executable, "-m", f"tests.support.members.{module}"]
    return Client(module.replace("_", ""), lambda: command, protocol)


@dataclass
class Host:
    """One running program and the members in it."""

    process: subprocess.Popen[bytes]
    members: list[str]


@dataclass
class Storm:
    broker: BrokerProcess
    folder: Path
    partitions: int
    session_ms: int
    topic: str = field(default_factory=lambda: fresh("storm"))
    group: str = field(default_factory=lambda: fresh("storm"))
    produced: dict[int, int] = field(default_factory=dict)
    history: GroupHistory = field(default_factory=GroupHistory)

    def __post_init__(self) -> None:
        create_topic(self.broker.bootstrap, self.topic, self.partitions)
        self.produced = dict.fromkeys(range(self.partitions), 0)
        self._path = self.folder / "history.jsonl"
        self._path.touch()
        self._read_to = 0
        self._hosts: list[Host] = []
        self._paused: list[Host] = []
        self._started = 0
        self._publisher = Publisher(self.broker.bootstrap, {"linger.ms": 20, "log_level": 0})
        self._over = threading.Event()
        self._observer = threading.Thread(target=self._observe, daemon=True)

    def __enter__(self) -> Storm:
        self._observer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for host in self.hosts:
            host.process.send_signal(SIGKILL)
            host.process.wait()
            self._close(host)
        self._observer.join()

    @property
    def hosts(self) -> list[Host]:
        """The programs that are there, the oldest first."""
        return [*self._hosts]

    def produce(self, per_partition: int) -> None:
        """Adds records to every partition; they are in the log when this returns."""
        records = [
            {"value": b"%d" % number, "partition": partition}
            for number in range(per_partition)
            for partition in range(self.partitions)
        ]
        self._publisher.send(self.topic, records)
        for partition in self.produced:
            self.produced[partition] += per_partition

    def join(self, client: Client, members: int) -> Host:
        names = [f"{client.name}-{self._started + number}" for number in range(members)]
        self._started += members
        settings = {
            "bootstrap": self.broker.bootstrap,
            "group": self.group,
            "topic": self.topic,
            "names": names,
            "protocol": client.protocol,
            "session_ms": self.session_ms,
            "heartbeat_ms": HEARTBEAT_MS,
        }
        with self._path.open("ab") as out, (self.folder / f"{names[0]}.err").open("ab") as err:
            command = [*client.command(), json.dumps(settings)]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=ROOT)
        host = Host(process, names)
        self._hosts.append(host)
        return host

    def leave(self, host: Host) -> None:
        assert host.process.stdin is not None
        host.process.stdin.close()
        try:
            code = host.process.wait(LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{host.members} do not leave") from None
        assert code == 0, f"{host.members} ended with {code}:\n{self._errors(host)}"
        self._close(host)

    def kill(self, host: Host) -> None:
        host.process.send_signal(SIGKILL)
        host.process.wait()
        self._mark("killed", members=host.members)
        self._close(host)

    def pause(self, host: Host) -> None:
        host.process.send_signal(SIGSTOP)
        self._mark("paused", members=host.members)
        self._paused.append(host)

    def resume(self, host: Host) -> None:
        self._mark("resumed", members=host.members)
        host.process.send_signal(SIGCONT)
        self._paused.remove(host)

    def restart_broker(self) -> None:
        """Kills the broker and starts it again: the members notice, and stay members if that was quick."""
        self.broker.kill()
        self._mark("cut")
        begin = time.monotonic()
        self.broker.start()
        if (time.monotonic() - begin) * 1000 < self.session_ms / 2:
            self._mark("mended")

    def settle(self) -> None:
        """Waits until the members that are awake own everything, each its fair share."""
        self._wait(self._is_fair, "every partition to have an owner, and every member its share")

    def drain(self) -> None:
        """Waits until the group has committed everything that was produced."""
        self._wait(lambda: self.history.observed == self.produced, "everything to be committed")

    def finish(self) -> None:
        """Everything is processed, everybody leaves, and nothing happened that may not happen."""
        self.drain()
        for host in self.hosts:
            self.leave(host)
        self._over.set()
        self._observer.join()
        self._read()
        found = self.history.anomalies(self.produced)
        assert found == [], f"{len(found)} anomalies, the first ones: {found[:5]}"
        assert self.history.owners == {}

    def _is_fair(self) -> bool:
        members = [name for host in self._hosts if host not in self._paused for name in host.members]
        least, rest = divmod(self.partitions, len(members))
        shares = [len(self.history.owned_by(name)) for name in members]
        return sum(shares) == self.partitions and least <= min(shares) <= max(shares) <= least + bool(rest)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        def holds() -> bool:
            self._read()
            for host in self._hosts:
                code = host.process.poll()
                assert code is None, f"{host.members} ended with {code}:\n{self._errors(host)}"
            return condition()

        try:
            wait_until(holds, what, TIMEOUT_S)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self._picture()}") from None

    def _picture(self) -> str:
        lag = {
            partition: (self.history.observed.get(partition, 0), end)
            for partition, end in self.produced.items()
            if self.history.observed.get(partition, 0) != end
        }
        shares = {name: sorted(self.history.owned_by(name)) for host in self._hosts for name in host.members}
        errors = "".join(self._errors(host) for host in self._hosts)
        return f"shares {shares}\nbehind {lag}\nfound {self.history.anomalies()[:5]}\n{errors[-3000:]}"

    def _errors(self, host: Host) -> str:
        return (self.folder / f"{host.members[0]}.err").read_text(errors="replace")[-2000:]

    def _close(self, host: Host) -> None:
        assert host.process.stdin is not None
        host.process.stdin.close()
        self._hosts.remove(host)

    def _mark(self, event: str, **facts: object) -> None:
        with self._path.open("ab", buffering=0) as out:
            out.write(json.dumps({"event": event, **facts}).encode() + b"\n")

    def _read(self) -> None:
        """Feeds the history with the complete lines that were added since the last time."""
        with self._path.open("rb") as lines:
            lines.seek(self._read_to)
            added = lines.read()
        complete = added[: added.rfind(b"\n") + 1]
        self._read_to += len(complete)
        self.history.extend(json.loads(line) for line in complete.splitlines())

    def _observe(self) -> None:
        asking = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "group.id": self.group,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        places = [TopicPartition(self.topic, partition) for partition in range(self.partitions)]
        while not self._over.wait(LOOK_EVERY_S):
            self._mark("asked")
            try:
                answer = asking.committed(places, timeout=OFFSET_FETCH_TIMEOUT_S)
            except KafkaException:
                continue
            self._mark("observed", offsets={one.partition: one.offset for one in answer if one.offset >= 0})
        asking.close()


def storm(
    broker: BrokerProcess,
    folder: Path,
    clients: Sequence[Client],
    *,
    partitions: int,
    size: int,
    session_ms: int,
) -> None:
    """All that can happen to a group, one thing after the other, with `size` members in each program."""
    with Storm(broker, folder, partitions, session_ms) as it:
        it.produce(20)
        first = it.join(clients[0], size)
        it.settle()
        others = [it.join(client, size) for client in (*clients, clients[0])]
        it.settle()
        it.produce(10)
        it.leave(first)
        it.settle()
        it.produce(10)
        it.kill(others.pop())
        it.settle()
        last = it.join(clients[-1], size)
        it.settle()
        it.produce(10)
        it.drain()
        it.pause(last)
        it.produce(10)
        it.settle()
        it.resume(last)
        it.settle()
        it.produce(10)
        it.restart_broker()
        it.produce(10)
        it.drain()
        it.settle()
        it.finish()
