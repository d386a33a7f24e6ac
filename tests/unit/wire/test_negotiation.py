"""Negotiation of API versions."""

from __future__ import annotations

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.wire.frames import response_frame
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.negotiation import NEWEST, OLDEST, newest_common, read_api_versions, served_versions

UNSUPPORTED_VERSION, INVALID_REQUEST = 35, 42


@pytest.mark.parametrize(
    ("ours", "theirs", "newest"),
    [
        (range(0, 5), range(0, 9), 4),
        (range(0, 9), range(0, 5), 4),
        (range(3, 6), range(5, 8), 5),
        (range(3, 6), range(6, 8), None),
        (range(6, 8), range(3, 6), None),
        (range(3, 6), range(0), None),
        (range(0), range(3, 6), None),
        (range(3, 6), None, None),
    ],
)
def test_the_newest_version_in_common(ours: range, theirs: range | None, newest: int | None) -> None:
    assert newest_common(ours, theirs) == newest


def test_served_versions_by_api_key() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=2, max_version=9)])
    assert served_versions(response) == {3: range(2, 10)}


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_a_response_is_read(version: int) -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=3, min_version=2, max_version=9)])
    assert read_api_versions(response_frame(response, version, 1)[4:], version) == response


def test_an_unsupported_version_is_requested_again_once() -> None:
    frame = response_frame(ApiVersionsResponse(error_code=UNSUPPORTED_VERSION), 0, 1)[4:]
    assert read_api_versions(frame, NEWEST) is None
    with pytest.raises(RemoteProtocolError, match="error 35"):
        read_api_versions(frame, OLDEST)


def test_an_error_is_reported() -> None:
    frame = response_frame(ApiVersionsResponse(error_code=INVALID_REQUEST), NEWEST, 1)[4:]
    with pytest.raises(RemoteProtocolError, match="error 42"):
        read_api_versions(frame, NEWEST)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", b"\0\0\0\1HTTP/1.1 400 Bad Request"])
def test_a_server_that_is_not_a_broker_is_reported(frame: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="not a Kafka broker"):
        read_api_versions(frame, NEWEST)
