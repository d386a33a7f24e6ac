"""What handlers of group requests share: who asks, what an error of the coordinator is called, and which of the
named partitions exist.

A commit that names some partitions which do not exist is answered in two parts: those are refused at once, the
others are decided by the group. In the answer the refused ones come first, each topic once, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.registry import Call
from ottla.coordinator.group.client import ClientInfo
from ottla.metadata.image import MetadataImage, TopicImage

# What a client of a group cannot act upon is told as a failure of the server.
_UNTOLD: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class TopicOfPartitions(Protocol):
    """A topic in a request or response about offsets."""

    name: str
    partitions: list[Any]


Asked = TypeVar("Asked", bound=TopicOfPartitions)
Answered = TypeVar("Answered", bound=TopicOfPartitions)
Decided = TypeVar("Decided")
Response = TypeVar("Response")


def client_of(call: Call) -> ClientInfo:
    """Who asks."""
    host, _, _ = call.connection.peer.rpartition(":")
    return ClientInfo(call.client_id or "", f"/{host}")


def code_of(error: ApiError) -> ErrorCode:
    """The error as a client of groups is told it."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if error.code in _UNTOLD else error.code


def answering(
    promise: Promise[Decided], say: Callable[[Decided], Response], refuse: Callable[[ApiError], Response]
) -> Promise[Response]:
    """The response that follows from a decision or, if that fails, from the error."""
    answer: Promise[Response] = Promise()

    def told(decided: Decided | None, error: BaseException | None) -> None:
        if error is None:
            answer.keep(say(cast(Decided, decided)))
        elif isinstance(error, ApiError):
            answer.keep(refuse(error))
        else:
            answer.fail(error)

    promise.when_done(told)
    return answer


def serves_consumer_groups(call: Call) -> bool:
    """Whether the cluster has the feature, and the operator has not turned the protocol off."""
    broker = call.broker
    offered = broker.settings.list("group.coordinator.rebalance.protocols")
    return "consumer" in offered and broker.image.features.get("group.version", 0) >= 1


class TopicAnswers(Generic[Asked, Answered]):
    """Collects the answer for the topics of one request."""

    __slots__ = ("_make", "_topics")

    def __init__(self, make: Callable[[Asked, list[tuple[int, ErrorCode]]], Answered]) -> None:
        """`make` builds the answer of a topic from partitions and their errors."""
        self._make = make
        self._topics: dict[str, Answered] = {}

    def existing(
        self,
        topics: list[Asked],
        image: MetadataImage,
        find: Callable[[Asked, MetadataImage], TopicImage | None],
        missing: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ) -> list[Asked]:
        """The topics with their partitions that exist; the rest is refused. `missing` is a topic's error."""
        kept = []
        for topic in topics:
            found = find(topic, image)
            if found is None:
                self._add([self.refused(topic, missing)])
                continue
            partitions = topic.partitions
            known = [each for each in partitions if each.partition_index in found.partitions]
            if len(known) < len(partitions):
                topic.partitions = [
                    each for each in partitions if each.partition_index not in found.partitions
                ]
                self._add([self.refused(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
                topic.partitions = known
            if known:
                kept.append(topic)
        return kept

    def refused(self, topic: Asked, code: ErrorCode) -> Answered:
        """All partitions of a topic with one error."""
        return self._make(topic, [(each.partition_index, code) for each in topic.partitions])

    def joined(self, decided: list[Answered]) -> list[Answered]:
        """The refused partitions, and what was decided about the others."""
        if not self._topics:
            return decided
        self._add(decided)
        return list(self._topics.values())

    def _add(self, topics: list[Answered]) -> None:
        for topic in topics:
            earlier = self._topics.setdefault(topic.name, topic)
            if earlier is not topic:
                earlier.partitions += topic.partitions


def by_name(topic: TopicOfPartitions, image: MetadataImage) -> TopicImage | None:
    return image.topics.by_name.get(topic.name)
