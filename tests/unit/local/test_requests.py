"""Requests to a broker that responds, closes the connection, or is not there."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path

from ottla.base.ids import TopicPartition
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.local.requests import METADATA_VERSION as VERSION
from ottla.local.requests import request_controller, request_ends, request_metadata
from ottla.wire.frames import parse_request_header, response_frame, take_frame
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from tests.support.clients import Publisher, create_topic


def respond_once(server: socket.socket, response: bytes) -> threading.Thread:
    def serve() -> None:
        connection, _ = server.accept()
        with closing(connection):
            received = bytearray()
            while (frame := take_frame(received)) is None:
                received += connection.recv(1024)
            assert parse_request_header(memoryview(frame))[:2] == (3, VERSION)
            connection.sendall(response)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return thread


def requested(response: bytes) -> MetadataResponse | None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = respond_once(server, response)
        received = request_metadata("127.0.0.1", server.getsockname()[1], timeout_s=30)
        thread.join()
    return received


def test_the_response_of_a_broker_is_decoded() -> None:
    sent = MetadataResponse(brokers=[MetadataResponseBroker(node_id=4, host="h", port=1)])
    received = requested(response_frame(sent, VERSION, 0))
    assert received is not None
    assert [broker.node_id for broker in received.brokers] == [4]


def test_a_broker_that_closes_the_connection_has_not_responded() -> None:
    whole = response_frame(MetadataResponse(cluster_id="c" * 20), VERSION, 0)
    assert requested(whole[:-5]) is None


def test_a_response_that_cannot_be_decoded_is_none() -> None:
    assert requested(b"\0\0\0\6\0\0\0\0\0\0") is None


def test_a_broker_that_is_not_there_has_not_responded() -> None:
    assert request_metadata("127.0.0.1", free_port()) is None


def test_ends_and_controller_of_a_real_broker(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", {"node.id": "4"}) as broker:
        topic = create_topic(broker.bootstrap, "scores", partitions=2)
        Publisher(broker.bootstrap).send(topic, [{"value": b"1", "partition": 1}] * 3)
        partitions = [TopicPartition(topic, number) for number in range(3)]
        ends = request_ends("127.0.0.1", broker.port, partitions, timeout_s=30)
        assert ends == {partitions[0]: 0, partitions[1]: 3}, "without the partition that does not exist"
        assert request_controller("127.0.0.1", broker.port, timeout_s=30) == 4
    assert request_ends("127.0.0.1", broker.port, partitions) == {}
    assert request_controller("127.0.0.1", broker.port) is None
