"""Rows of the coordinators: owning partitions, committing offsets, transactions, many members, many groups.

Commits and heartbeats are whole requests, encoded once and sent over and over by `frames.c`. The members of
the large groups are made of the same requests: a group of the newer protocol needs nothing but heartbeats.
"""

from __future__ import annotations

import socket
import struct
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from bench.places import DATA
from bench.session import LoadFailed, Metrics, Session
from ottla.wire import codec
from ottla.wire.frames import parse_response_header, request_frame
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.schema import Message

MEMBERS, PARTITIONS = 10, 100
COMMITTERS = 16
HEARTBEAT_CONNECTIONS = 4
QUIET_S = 2.5
_JOIN_ATTEMPTS = 400
_PASSING = {14, 15, 16}
"""The coordinator is loading, not there yet, or elsewhere."""

R = TypeVar("R", bound=Message)


def own(protocol: str) -> Callable[[Session], Metrics]:
    def run(session: Session) -> Metrics:
        topic = session.topic("owned", PARTITIONS)
        with _Asker(session.peer.port) as asker:
            asker.find("owners")  # the coordinator's topic is there before anybody is in a hurry
        result = session.python("bench.group_client", "own", topic, PARTITIONS, MEMBERS, protocol)
        return {"own s": result["own_s"], "again after a kill s": result["again_s"]}

    return run


def transactions(records: int) -> Callable[[Session], Metrics]:
    def run(session: Session) -> Metrics:
        topic = session.topic("transactions", 8)
        result = session.python("bench.group_client", "transactions", topic, records, session.scale.seconds)
        return {"transactions/s": result["transactions_per_s"], "broker CPU s": result["broker_cpu_s"]}

    return run


def commits(session: Session) -> Metrics:
    """Sixteen groups commit one offset over and over."""
    topic = session.topic("committed", 1)
    groups = [f"committer-{number}" for number in range(COMMITTERS)]
    with _Asker(session.peer.port) as asker:
        asker.find(groups[0])
        frames = [_commit(group, topic) for group in groups]
        result = session.frames(_write(frames), connections=COMMITTERS)
    return {"commits/s": result["requests_per_s"], "p99 ms": result["p99_ms"]}


def members(session: Session) -> Metrics:
    """One group of 100, then 1,000 members: what a member weighs, and what a heartbeat costs in each."""
    figures: Metrics = {}
    topic = session.topic("many", PARTITIONS)
    with _Asker(session.peer.port) as asker:
        before = session.peer.rss_bytes()
        for count in (100, 1000):
            group = f"many-{count}"
            asker.find(group)
            epochs = dict(asker.join(group, topic) for _ in range(count))
            asker.settle(group, epochs)
            beats = [_heartbeat(group, member, epoch) for member, epoch in epochs.items()]
            frames = [request_frame(beat, 1, 1, "bench") for beat in beats]
            result = session.frames(_write(frames), connections=HEARTBEAT_CONNECTIONS)
            figures[f"heartbeats/s, {count} members"] = result["requests_per_s"]
        figures["KB a member"] = (session.peer.rss_bytes() - before) / 1100 / 1e3
    return figures


def groups(session: Session) -> Metrics:
    """10,000 groups with an offset and a member each."""
    count = 10_000
    topic = session.topic("committed", 1)
    before = session.peer.rss_bytes()
    with _Asker(session.peer.port) as asker:
        asker.find("group-0")
        for number in range(count):
            asker.join(f"group-{number}", topic)
        frames = [_commit(f"offsets-{number}", topic) for number in range(count)]
        result = session.frames(_write(frames), connections=COMMITTERS)
    return {
        "commits/s": result["requests_per_s"],
        "KB a group": (session.peer.rss_bytes() - before) / count / 1e3,
    }


class _Asker:
    """One connection that asks and waits."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)

    def __enter__(self) -> _Asker:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def find(self, group: str) -> None:
        """Until the coordinator is there: its topic is made at the first question."""
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        for _ in range(_JOIN_ATTEMPTS):
            answer = self._ask(request, 4, FindCoordinatorResponse)
            if answer.coordinators[0].error_code == 0:
                return
            time.sleep(0.05)
        raise LoadFailed(f"no coordinator: {answer.coordinators[0].error_code}")

    def join(self, group: str, topic: str) -> tuple[str, int]:
        """A new member; its id and epoch."""
        member = str(uuid.uuid4())
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member,
            member_epoch=0,
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        for _ in range(_JOIN_ATTEMPTS):
            answer = self._ask(request, 1, ConsumerGroupHeartbeatResponse)
            if answer.error_code == 0:
                return member, answer.member_epoch
            if answer.error_code not in _PASSING:
                raise LoadFailed(f"join refused: {answer.error_code} {answer.error_message}")
            time.sleep(0.05)
        raise LoadFailed("the coordinator is still loading")

    def settle(self, group: str, epochs: dict[str, int]) -> None:
        """Send heartbeats for all members and follow their assignments until nothing has changed for a while."""
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < QUIET_S:
            for member, epoch in epochs.items():
                answer = self._beat(group, member, epoch, None)
                while answer.assignment is not None:
                    quiet_since = time.monotonic()
                    owned = [
                        TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                        for each in answer.assignment.topic_partitions
                    ]
                    answer = self._beat(group, member, answer.member_epoch, owned)
                if answer.member_epoch != epoch:
                    epochs[member] = answer.member_epoch
                    quiet_since = time.monotonic()

    def _beat(
        self, group: str, member: str, epoch: int, owned: list[TopicPartitions] | None
    ) -> ConsumerGroupHeartbeatResponse:
        answer = self._ask(_heartbeat(group, member, epoch, owned), 1, ConsumerGroupHeartbeatResponse)
        if answer.error_code:
            raise LoadFailed(f"heartbeat refused: {answer.error_code} {answer.error_message}")
        return answer

    def _ask(self, request: Message, version: int, response: type[R]) -> R:
        self._socket.sendall(request_frame(request, version, 1, "bench"))
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        _, start = parse_response_header(frame, request.SPEC.api_key, version)
        return codec.decode(response, frame, version, start=start)

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            got = self._socket.recv(size - len(parts))
            if not got:
                raise LoadFailed("the broker closed the connection")
            parts += got
        return bytes(parts)


def _heartbeat(
    group: str, member: str, epoch: int, owned: list[TopicPartitions] | None = None
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, topic_partitions=owned
    )


def _commit(group: str, topic: str) -> bytes:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    return request_frame(request, 8, 1, "bench")


def _write(frames: Iterable[bytes]) -> Path:
    path = DATA / "frames"
    path.write_bytes(b"".join(frames))
    return path
