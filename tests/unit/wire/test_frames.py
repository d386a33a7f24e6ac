"""Headers around messages, to the byte."""

from __future__ import annotations

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec, frames
from ottla.wire.apis import ApiKey
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("0003" + "0001" + "00000007" + "000161", (ApiKey.METADATA, 1, 7, "a", 11)),
        ("0003" + "0001" + "00000007" + "ffff", (ApiKey.METADATA, 1, 7, "", 10)),
        ("0003" + "0001" + "00000007" + "fffe", (ApiKey.METADATA, 1, 7, "", 10)),
        ("0003" + "000c" + "80000000" + "000161" + "00", (ApiKey.METADATA, 12, -(2**31), "a", 12)),
        ("0003" + "000c" + "00000007" + "0000" + "01" + "0902ffff", (ApiKey.METADATA, 12, 7, "", 15)),
        ("0012" + "0063" + "00000007" + "0000" + "00", (ApiKey.API_VERSIONS, 99, 7, "", 11)),
        ("0012" + "ffff" + "00000007" + "0000", (ApiKey.API_VERSIONS, -1, 7, "", 10)),
    ],
    ids=[
        "v1",
        "null client",
        "negative client length",
        "v2",
        "v2 with a tag",
        "future version",
        "version -1",
    ],
)
def test_request_header(raw: str, expected: tuple[object, ...]) -> None:
    assert frames.parse_request_header(bytes.fromhex(raw) + b"") == expected
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
        "03e7000000000007ffff",
        "ffff000000000007ffff",
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
        "unknown key",
        "negative key",
    ],
)
def test_a_header_that_is_none(raw: str) -> None:
    with pytest.raises(RemoteProtocolError):
        frames.parse_request_header(bytes.fromhex(raw))


@pytest.mark.parametrize("version", [0, 1, 8, 9, 13])
def test_requests_and_responses_come_back(version: int) -> None:
    request = MetadataRequest(topics=[])
    sent = frames.request_frame(request, version, 5, "me")
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    header = frames.parse_request_header(sent[4:])
    assert header[:4] == (ApiKey.METADATA, version, 5, "me")
    assert codec.decode(MetadataRequest, sent[4:], version, start=header.body_start) == request

    answer = frames.response_frame(MetadataResponse(), version, 5)
    correlation_id, start = frames.parse_response_header(answer[4:], ApiKey.METADATA, version)
    assert correlation_id == 5
    assert codec.decode(MetadataResponse, answer[4:], version, start=start) == MetadataResponse()
    prefix = frames.response_prefix(ApiKey.METADATA, version, 5, len(answer) - 4 - start)
    assert prefix + answer[4 + start :] == answer


def test_the_header_of_api_versions_never_changes() -> None:
    for version in (0, 3, 4):
        answer = frames.response_frame(ApiVersionsResponse(), version, 0x01020304)
        assert answer[4:8].hex() == "01020304"
        assert answer[8:] == codec.encode(ApiVersionsResponse(), version)
