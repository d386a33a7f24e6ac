"""Requests to the leaders of partitions on other brokers, in batches.

An entry concerns one partition and is sent to the leader of that partition. There is at most one request in flight to
a broker: entries that are added meanwhile form the next request, as in Kafka's senders of markers and verifications.
Entries that are added in one iteration of the event loop form one request.

Each entry is completed once, with an error code: that of the response, NETWORK_EXCEPTION if the request failed, or
NOT_LEADER_OR_FOLLOWER if the leader in the image has changed since the entry was added. A result that arrives after
that is ignored, so an entry never waits for a broker that has been replaced. Nothing is sent again: that is for the
caller, who knows whether the entry is still needed.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.runtime.ports import Scheduler
from ottla.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage
from ottla.peer.peers import PeerRequests
from ottla.wire.schema import Message

_TIMEOUT_S: Final = 30.0
"""The time for a response; Kafka's default of `request.timeout.ms`."""


class Entry:
    """One partition of a request. `on_done` is called once with the error code."""

    __slots__ = ("is_open", "leader_epoch", "on_done", "partition")

    def __init__(self, partition: TopicPartition, on_done: Callable[[ErrorCode], None]) -> None:
        self.partition = partition
        self.on_done = on_done
        self.leader_epoch = -1
        self.is_open = True

    def complete(self, error: ErrorCode) -> None:
        if self.is_open:
            self.is_open = False
            self.on_done(error)


E = TypeVar("E", bound=Entry)


class RequestFormat(Protocol[E]):
    """The message in which entries are sent, and its response."""

    response: type[Message]
    versions: range

    def group(self, entry: E) -> tuple[Hashable, Hashable]:
        """A key and a value: of the entries with one key, only those with the same value can be in one request."""

    def build(self, entries: list[E]) -> Message: ...

    def results(self, response: Any) -> Callable[[E], ErrorCode]:
        """A function that returns the error code of an entry."""


class _Destination(Generic[E]):
    __slots__ = ("in_flight", "waiting")

    def __init__(self) -> None:
        self.waiting: list[E] = []
        self.in_flight: list[E] = []


class LeaderRequests(Generic[E]):
    """The entries for other brokers that have no result."""

    def __init__(self, peers: PeerRequests, scheduler: Scheduler, form: RequestFormat[E]) -> None:
        self._peers = peers
        self._scheduler = scheduler
        self._form = form
        self._image: MetadataImage = EMPTY_IMAGE
        self._destinations: dict[int, _Destination[E]] = {}
        self._to_send: dict[int, None] = {}

    def leader_of(self, partition: TopicPartition) -> int:
        """The leader of a partition in the image; NO_LEADER if there is none, or no such partition."""
        return self._leader_and_epoch(partition)[0]

    def add(self, entry: E) -> None:
        """Send an entry to the leader of its partition; there must be one."""
        node_id, entry.leader_epoch = self._leader_and_epoch(entry.partition)
        destination = self._destinations.get(node_id)
        if destination is None:
            destination = self._destinations[node_id] = _Destination()
        destination.waiting.append(entry)
        if not destination.in_flight:
            self._send_soon(node_id)

    def on_metadata_changed(self, image: MetadataImage) -> None:
        """Complete the entries whose partition has another leader now."""
        self._image = image
        for node_id, destination in list(self._destinations.items()):
            for entry in (*destination.in_flight, *destination.waiting):
                if self._leader_and_epoch(entry.partition) != (node_id, entry.leader_epoch):
                    entry.complete(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _leader_and_epoch(self, where: TopicPartition) -> tuple[int, int]:
        topic = self._image.topics.by_name.get(where.topic)
        partition = None if topic is None else topic.partitions.get(where.partition)
        return (NO_LEADER, -1) if partition is None else (partition.leader, partition.leader_epoch)

    def _send_soon(self, node_id: int) -> None:
        if not self._to_send:
            self._scheduler.call_soon(self._send_all)
        self._to_send[node_id] = None

    def _send_all(self) -> None:
        to_send, self._to_send = self._to_send, {}
        for node_id in to_send:
            self._send(node_id, self._destinations[node_id])

    def _send(self, node_id: int, destination: _Destination[E]) -> None:
        groups: dict[Hashable, Hashable] = {}
        entries: list[E] = []
        left: list[E] = []
        for entry in destination.waiting:
            if entry.is_open:
                key, value = self._form.group(entry)
                (entries if groups.setdefault(key, value) == value else left).append(entry)
        destination.waiting, destination.in_flight = left, entries
        if not entries:
            del self._destinations[node_id]
            return
        sent = self._peers.request(
            node_id,
            self._form.build(entries),
            self._form.response,
            timeout_s=_TIMEOUT_S,
            versions=self._form.versions,
        )
        sent.when_done(partial(self._on_response, node_id, destination))

    def _on_response(
        self,
        node_id: int,
        destination: _Destination[E],
        response: Message | None,
        error: BaseException | None,
    ) -> None:
        entries, destination.in_flight = destination.in_flight, []
        self._send_soon(node_id)
        result = _not_sent if error is not None else self._form.results(response)
        for entry in entries:
            entry.complete(result(entry))


def known_error(code: int) -> ErrorCode:
    """The error of a response; UNKNOWN_SERVER_ERROR if this release does not know it."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _not_sent(entry: Entry) -> ErrorCode:
    return ErrorCode.NETWORK_EXCEPTION
