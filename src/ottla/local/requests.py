"""Single blocking requests to a broker of this machine, each on its own connection.

For a broker of the same release: the versions of requests are fixed. A broker that does not respond in time, closes the
connection or sends something else gives None.
"""

from __future__ import annotations

import socket
import ssl
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeVar

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.base.ids import TopicPartition
from ottla.wire import codec
from ottla.wire.frames import SIZE, parse_response_header, request_frame
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from ottla.wire.schema import Message

METADATA_VERSION = 12
_LIST_OFFSETS_VERSION = 7
_DESCRIBE_QUORUM_VERSION = 1
_CLIENT_ID = "ottla-local"
_TIMEOUT_S = 1.0
_LATEST = -1
_NO_REPLICA = -1
_METADATA_TOPIC = "__cluster_metadata"
R = TypeVar("R", bound=Message)


def request_metadata(
    host: str,
    port: int,
    topics: Iterable[str] | None = (),
    *,
    timeout_s: float = _TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
) -> MetadataResponse | None:
    """Brokers and topics as a broker lists them, with all topics if `topics` is None."""
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
    return request_once(host, port, request, MetadataResponse, METADATA_VERSION, timeout_s, tls)


def request_ends(
    host: str,
    port: int,
    partitions: Iterable[TopicPartition],
    *,
    timeout_s: float = _TIMEOUT_S,
    tls: ssl.SSLContext | None = None,
) -> dict[TopicPartition, int]:
    """The high watermarks of partitions that the broker leads."""
    topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for tp in partitions:
        topics[tp.topic].append(ListOffsetsPartition(partition_index=tp.partition, timestamp=_LATEST))
    request = ListOffsetsRequest(
        replica_id=_NO_REPLICA,
        topics=[ListOffsetsTopic(name=name, partitions=theirs) for name, theirs in topics.items()],
    )
    response = request_once(host, port, request, ListOffsetsResponse, _LIST_OFFSETS_VERSION, timeout_s, tls)
    return {
        TopicPartition(topic.name, one.partition_index): one.offset
        for topic in (response.topics if response is not None else [])
        for one in topic.partitions
        if one.error_code == ErrorCode.NONE
    }


def request_controller(
    host: str, port: int, *, timeout_s: float = _TIMEOUT_S, tls: ssl.SSLContext | None = None
) -> int | None:
    """The node id of the active controller."""
    topic = TopicData(topic_name=_METADATA_TOPIC, partitions=[PartitionData()])
    request = DescribeQuorumRequest(topics=[topic])
    response = request_once(
        host, port, request, DescribeQuorumResponse, _DESCRIBE_QUORUM_VERSION, timeout_s, tls
    )
    if response is None or response.error_code != ErrorCode.NONE:
        return None
    found = [one.leader_id for each in response.topics for one in each.partitions if one.leader_id >= 0]
    return found[0] if found else None


def request_once(
    host: str,
    port: int,
    request: Message,
    response: type[R],
    version: int,
    timeout_s: float,
    tls: ssl.SSLContext | None = None,
) -> R | None:
    """Connect, with TLS if a context is given, send a request, and decode its response."""
    try:
        with _connected(host, port, timeout_s, tls) as connection:
            connection.sendall(request_frame(request, version, 0, _CLIENT_ID))
            (size,) = SIZE.unpack(_read(connection, SIZE.size))
            frame = _read(connection, size)
        _, start = parse_response_header(frame, request.SPEC.api_key, version)
        return codec.decode(response, frame, version, start=start)
    except (OSError, RemoteProtocolError):
        return None


def _connected(host: str, port: int, timeout_s: float, tls: ssl.SSLContext | None) -> socket.socket:
    connection = socket.create_connection((host, port), timeout_s)
    if tls is None:
        return connection
    try:
        return tls.wrap_socket(connection, server_hostname=host)
    except BaseException:
        connection.close()
        raise


def _read(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        if not (piece := connection.recv(size - len(received))):
            raise ConnectionResetError("the broker has closed the connection")
        received += piece
    return bytes(received)
