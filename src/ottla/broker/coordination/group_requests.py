"""Functions that the handlers of group requests share: client information, error mapping, missing partitions.

Partitions of a commit that do not exist are refused at once, the others are decided by the group. In the response the
refused ones come first, each topic once, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.broker.access import NameFilter, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.registry import Call
from ottla.config.dynamic import DynamicConfig
from ottla.coordinator.group.client import ClientInfo
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.security.resources import Operation, ResourceType

# Errors that clients of groups do not handle are reported as UNKNOWN_SERVER_ERROR.
_NOT_FOR_CLIENTS: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class TopicOfPartitions(Protocol):
    """A topic of a request or response about offsets."""

    name: str
    partitions: list[Any]


Requested = TypeVar("Requested", bound=TopicOfPartitions)
Responded = TypeVar("Responded", bound=TopicOfPartitions)
Decided = TypeVar("Decided")
Response = TypeVar("Response")


def client_info(call: Call, authorization: Authorization) -> ClientInfo:
    """Return the client id and host as group descriptions show them, and which topics the client may describe."""
    describes = name_filter(authorization, call, Operation.DESCRIBE, ResourceType.TOPIC, quiet=True)
    return ClientInfo(call.client_id or "", f"/{call.origin.ip}", describes)


def client_error(error: ApiError) -> ErrorCode:
    """Return the code with which an error of the coordinator is reported to clients of groups."""
    return ErrorCode.UNKNOWN_SERVER_ERROR if error.code in _NOT_FOR_CLIENTS else error.code


def to_response(
    promise: Promise[Decided],
    accept: Callable[[Decided], Response],
    refuse: Callable[[ApiError], Response],
) -> Promise[Response]:
    """Return a promise of the response that `accept` makes of the value, or `refuse` of an ApiError."""
    response: Promise[Response] = Promise()

    def settle(decided: Decided | None, error: BaseException | None) -> None:
        if error is None:
            response.keep(accept(cast(Decided, decided)))
        elif isinstance(error, ApiError):
            response.keep(refuse(error))
        else:
            response.fail(error)

    promise.when_done(settle)
    return response


def consumer_protocol_enabled(settings: DynamicConfig, image: MetadataImage) -> bool:
    """Return whether the cluster has the feature and the operator has not disabled the protocol."""
    enabled = settings.list("group.coordinator.rebalance.protocols")
    return "consumer" in enabled and image.features.get("group.version", 0) >= 1


class TopicResponses(Generic[Requested, Responded]):
    """Collects the response for the topics of one request."""

    __slots__ = ("_make", "_topics")

    def __init__(self, make: Callable[[Requested, list[tuple[int, ErrorCode]]], Responded]) -> None:
        """`make` builds the response of a topic from partitions and their errors."""
        self._make = make
        self._topics: dict[str, Responded] = {}

    def existing(
        self,
        topics: list[Requested],
        image: MetadataImage,
        find: Callable[[Requested, MetadataImage], TopicImage | None],
        allowed: NameFilter = None,
        missing: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ) -> list[Requested]:
        """Return the topics with their existing partitions and refuse the rest.

        `missing` is the error of a topic that does not exist. Topics that the client may not read are refused before,
        unless the request has only an id, which no topic has.
        """
        kept = []
        for topic in topics:
            found = find(topic, image)
            is_named = found is not None or missing is not ErrorCode.UNKNOWN_TOPIC_ID
            if allowed is not None and is_named and not allowed(topic.name):
                self._add([self.refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
                continue
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

    def refused(self, topic: Requested, code: ErrorCode) -> Responded:
        """Return the response of a topic with one error for all its partitions."""
        return self._make(topic, [(each.partition_index, code) for each in topic.partitions])

    def all_refused(self, topics: list[Requested], code: ErrorCode) -> list[Responded]:
        """Return the response with one error for all topics of a request."""
        return [self.refused(topic, code) for topic in topics]

    def joined(self, decided: list[Responded]) -> list[Responded]:
        """Return the refused partitions, followed by those that the group decided about."""
        if not self._topics:
            return decided
        self._add(decided)
        return list(self._topics.values())

    def _add(self, topics: list[Responded]) -> None:
        for topic in topics:
            earlier = self._topics.setdefault(topic.name, topic)
            if earlier is not topic:
                earlier.partitions += topic.partitions


def by_name(topic: TopicOfPartitions, image: MetadataImage) -> TopicImage | None:
    return image.topics.by_name.get(topic.name)
