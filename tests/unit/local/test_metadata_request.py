"""A Metadata request to a broker that responds, closes the connection, or is not there."""

from __future__ import annotations

import socket
import threading
from contextlib import closing

from ottla.local.metadata_request import VERSION, request_metadata
from ottla.local.ports import free_port
from ottla.wire.frames import parse_request_header, response_frame, take_frame
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseBroker


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
