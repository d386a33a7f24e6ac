"""Administrative requests of a sink: open transactions, creation of a topic, the maximal size of a batch.

Open transactions are known to their coordinators only, so the request is sent to every broker. The transactions of
a broker that cannot be reached move to another coordinator, which first loads them; until then the result is
incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, NamedTuple

from ottla.base.errors import ErrorCode
from ottla.client.raw.connection import Connection, PendingRequest
from ottla.client.raw.errors import (
    ConnectionLost,
    Refused,
    RetriableError,
    Unsupported,
    error_name,
    is_retriable,
)
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

if TYPE_CHECKING:
    from ottla.client.raw.cluster import Cluster

OPEN_STATE = "Ongoing"
_PATTERN_VERSION = 2
"""The first version with a pattern. Older brokers return all ids, and the client filters them."""
_BROKERS_DEFAULT = -1
_TOPIC_RESOURCE = 2
_BATCH_LIMIT = "max.message.bytes"


class OpenTransactions(NamedTuple):
    """The producers of open transactions by transactional id."""

    producers: dict[str, int]
    complete: bool
    """Whether every broker responded."""


def list_open_transactions(cluster: Cluster, prefix: str) -> OpenTransactions:
    """Open transactions whose transactional ids start with `prefix`."""
    nodes = cluster.brokers()
    responses = _request_from_all(cluster, nodes, prefix)
    missing = [node for node in nodes if node not in responses]
    if missing:
        # The broker may have restarted since its connection was opened. The second attempt opens a new one.
        responses |= _request_from_all(cluster, missing, prefix)
    found = {
        one.transactional_id: one.producer_id
        for response in responses.values()
        for one in response.transaction_states
        if one.transactional_id.startswith(prefix)
    }
    responded = [node for node, response in responses.items() if response.error_code == ErrorCode.NONE]
    return OpenTransactions(found, complete=len(responded) == len(nodes))


def _request_from_all(
    cluster: Cluster, nodes: Iterable[int], prefix: str
) -> dict[int, ListTransactionsResponse]:
    """The responses of the brokers that can be reached. All requests are sent before the first response is awaited."""
    sent: dict[int, tuple[Connection, PendingRequest]] = {}
    responses: dict[int, ListTransactionsResponse] = {}
    with ExitStack() as stack:
        for node in nodes:
            with suppress(ConnectionLost):
                connection = cluster.connection(node)
                pending = connection.send(_list_request(connection, prefix))
                sent[node] = connection, pending
                stack.callback(connection.discard, pending)
        for node, (connection, pending) in sent.items():
            with suppress(ConnectionLost):
                responses[node] = connection.receive(pending, ListTransactionsResponse)
    return responses


def _list_request(connection: Connection, prefix: str) -> ListTransactionsRequest:
    request = ListTransactionsRequest(state_filters=[OPEN_STATE])
    if connection.version_of(ListTransactionsRequest) >= _PATTERN_VERSION:
        request.transactional_id_pattern = re.escape(prefix) + ".*"
    return request


def ensure_topic(cluster: Cluster, name: str, partitions: int, configs: Mapping[str, str]) -> None:
    """Create a topic with the default replication factor unless it exists; wait until the brokers know it."""
    retry = cluster.retry(f"creating topic {name}")
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=_BROKERS_DEFAULT,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
        ],
        timeout_ms=cluster.settings.request_timeout_ms,
    )
    while not cluster.topics([name]):
        try:
            response = cluster.any_connection().request(request, CreateTopicsResponse)
            for topic in response.topics:
                _check_created(topic.name, topic.error_code, topic.error_message)
            raise RetriableError(f"topic {name} is not known to all brokers yet")
        except (ConnectionLost, RetriableError) as error:
            retry.backoff(error)


def _check_created(name: str, code: int, message: str | None) -> None:
    if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        return
    if is_retriable(code):
        raise RetriableError(f"creating topic {name}: {error_name(code)}")
    raise Refused(f"creating topic {name}", code, message)


def batch_limit(cluster: Cluster, topic: str) -> int | None:
    """The `max.message.bytes` of a topic; None if the cluster does not report it, for example without authorization."""
    wanted = DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=[_BATCH_LIMIT]
    )
    retry = cluster.retry(f"reading {_BATCH_LIMIT} of topic {topic}")
    while True:
        try:
            request = DescribeConfigsRequest(resources=[wanted])
            response = cluster.any_connection().request(request, DescribeConfigsResponse)
            (described,) = response.results
            if not is_retriable(described.error_code):
                values = [one.value for one in described.configs if one.name == _BATCH_LIMIT and one.value]
                return int(values[0]) if values else None
            retry.backoff(RetriableError(f"topic {topic}: {error_name(described.error_code)}"))
        except Unsupported:
            return None
        except ConnectionLost as error:
            retry.backoff(error)
