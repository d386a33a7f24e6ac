"""Headers of requests and responses, byte for byte."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.wire import codec, frames
from ottla.wire.apis import ApiKey
from ottla.wire.messages import headers
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.wire.schema import Message


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("0003" + "0001" + "00000007" + "000161", (ApiKey.METADATA, 1, 7, "a", 11)),
        ("0003" + "0001" + "00000007" + "ffff", (ApiKey.METADATA, 1, 7, None, 10)),
        ("0003" + "0001" + "00000007" + "fffe", (ApiKey.METADATA, 1, 7, None, 10)),
        ("0003" + "000c" + "80000000" + "000161" + "00", (ApiKey.METADATA, 12, -(2**31), "a", 12)),
        ("0003" + "000c" + "00000007" + "0000" + "01" + "0902ffff", (ApiKey.METADATA, 12, 7, "", 15)),
        ("0012" + "0063" + "00000007" + "0000" + "00", (ApiKey.API_VERSIONS, 99, 7, "", 11)),
        ("0012" + "ffff" + "00000007" + "0000", (ApiKey.API_VERSIONS, -1, 7, "", 10)),
        ("03e7" + "0000" + "00000007" + "ffff", (999, 0, 7, None, 10)),
        ("ffff" + "0000" + "00000007" + "ffff", (-1, 0, 7, None, 10)),
    ],
    ids=[
        "v1",
        "null client",
        "negative client length",
        "v2",
        "v2 with a tag",
        "future version",
        "version -1",
        "unknown key",
        "negative key",
    ],
)
def test_request_header(raw: str, expected: tuple[object, ...]) -> None:
    assert frames.parse_request_header(memoryview(bytes.fromhex(raw))) == expected
    assert frames.parse_request_header(memoryview(bytes.fromhex(raw) + b"body")) == expected


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "0003",
        "00030001",
        "0003000100000007",
        "0003000100000007000561",
        "0003000c000000070000",
        "0003000c00000007000001090500",
        "0003000c000000070000" + "ffffffff07" + "0900" * 64,
        "0003000c000000070000" + "808080808000",
    ],
    ids=[
        "empty",
        "key only",
        "no correlation id",
        "no client id",
        "client id cut",
        "no tags",
        "tag cut",
        "flood of tags",
        "endless varint",
    ],
)
def test_an_invalid_header_is_rejected(raw: str) -> None:
    with pytest.raises(RemoteProtocolError):
        frames.parse_request_header(memoryview(bytes.fromhex(raw)))


def declared_frame(header: Message, header_version: int, body: Message, version: int) -> bytes:
    """A frame made with the declared header messages."""
    frame = codec.encode(header, header_version) + codec.encode(body, version)
    return len(frame).to_bytes(4, "big") + frame


@pytest.mark.parametrize(
    ("request_message", "response", "version", "request_header", "response_header"),
    [
        (MetadataRequest(topics=[]), MetadataResponse(), 0, 1, 0),
        (MetadataRequest(topics=[]), MetadataResponse(), 8, 1, 0),
        (MetadataRequest(topics=[]), MetadataResponse(), 9, 2, 1),
        (MetadataRequest(topics=[]), MetadataResponse(), 13, 2, 1),
        (ApiVersionsRequest(), ApiVersionsResponse(), 2, 1, 0),
        (ApiVersionsRequest(), ApiVersionsResponse(), 3, 2, 0),
        (SaslHandshakeRequest(), SaslHandshakeResponse(), 1, 1, 0),
        (DescribeClusterRequest(), DescribeClusterResponse(), 0, 2, 1),
    ],
)
@pytest.mark.parametrize("client_id", ["client", "", "\u00e9", None])
def test_headers_equal_the_declared_messages(
    request_message: Message,
    response: Message,
    version: int,
    request_header: int,
    response_header: int,
    client_id: str | None,
) -> None:
    api_key = request_message.SPEC.api_key
    declared = headers.RequestHeader(
        request_api_key=api_key, request_api_version=version, correlation_id=5, client_id=client_id
    )
    sent = frames.request_frame(request_message, version, 5, client_id)
    assert sent == declared_frame(declared, request_header, request_message, version)
    header = frames.parse_request_header(memoryview(sent[4:]))
    assert header[:4] == (api_key, version, 5, client_id)
    assert codec.decode(type(request_message), sent[4:], version, start=header[4]) == request_message

    sent = frames.response_frame(response, version, 5)
    assert sent == declared_frame(
        headers.ResponseHeader(correlation_id=5), response_header, response, version
    )
    correlation_id, start = frames.parse_response_header(sent[4:], api_key, version)
    assert correlation_id == frames.correlation_id_of(sent[4:]) == 5
    assert codec.decode(type(response), sent[4:], version, start=start) == response


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1\5"])
def test_a_response_header_that_is_cut_is_rejected(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="response ends"):
        frames.parse_response_header(frame, ApiKey.METADATA, 9)


def test_a_client_id_that_is_too_long_is_rejected() -> None:
    with pytest.raises(LocalError, match="client id of 32768 bytes"):
        frames.request_frame(MetadataRequest(), 1, 1, "x" * 32768)


def test_frames_are_taken_from_received_bytes_one_by_one() -> None:
    received = bytearray(b"\0\0\0\2ab\0\0\0\0\0\0\0\1")
    assert frames.take_frame(received) == b"ab"
    assert frames.take_frame(received) == b""
    assert frames.take_frame(received) is None
    received += b"c"
    assert frames.take_frame(received) == b"c"
    assert frames.take_frame(received) is None
    assert not received


def test_a_negative_frame_size_is_rejected() -> None:
    with pytest.raises(RemoteProtocolError, match="frame of -1 bytes"):
        frames.take_frame(bytearray(b"\xff" * 4))


def test_a_malformed_client_id_that_cannot_be_encoded_again_is_rejected() -> None:
    """Each malformed byte becomes U+FFFD, which has three bytes; DescribeGroups returns the client id."""

    def parse(size: int) -> str | None:
        header = bytes.fromhex("0012" + "0000" + "00000001") + size.to_bytes(2, "big")
        return frames.parse_request_header(memoryview(header + b"\xff" * size))[3]

    assert parse(10922) == "\ufffd" * 10922
    with pytest.raises(RemoteProtocolError, match="too long to be encoded"):
        parse(10923)
