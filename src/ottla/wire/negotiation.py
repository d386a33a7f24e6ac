"""Negotiation of API versions, for the requesting side of a connection.

The requester sends ApiVersions in its newest version. A broker that does not serve that version responds with
UNSUPPORTED_VERSION in version 0; the requester then sends ApiVersions again in version 0. Every later request is sent
in the newest version that both sides serve. Pure functions.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode, LocalError, RemoteProtocolError
from ottla.base.varint import Source
from ottla.wire import codec
from ottla.wire.frames import CORRELATION_ID_BYTES
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

NEWEST: Final = ApiVersionsRequest.SPEC.versions[-1]
"""The version of the first ApiVersions request of a connection."""
OLDEST: Final = 0
"""The version of the second request, if the broker does not serve the first."""
_ERROR_CODE: Final = slice(CORRELATION_ID_BYTES, CORRELATION_ID_BYTES + 2)


def api_versions_request() -> ApiVersionsRequest:
    """The first request of a connection."""
    return ApiVersionsRequest(client_software_name="ottla", client_software_version="1")


def read_api_versions(frame: Source, version: int) -> ApiVersionsResponse | None:
    """Read the response to ApiVersions; None if the request must be sent again in version `OLDEST`.

    Raise RemoteProtocolError if the other side is not a Kafka broker or reports an error.
    """
    code = int.from_bytes(frame[_ERROR_CODE], "big", signed=True)
    if code == ErrorCode.UNSUPPORTED_VERSION and version != OLDEST:
        return None
    try:
        response = codec.decode(ApiVersionsResponse, frame, version, start=CORRELATION_ID_BYTES)
    except (RemoteProtocolError, LocalError) as error:
        raise RemoteProtocolError(f"is not a Kafka broker: {error}") from error
    if response.error_code:
        raise RemoteProtocolError(f"does not report its API versions: error {response.error_code}")
    return response


def served_versions(response: ApiVersionsResponse) -> dict[int, range]:
    """The versions that the other side serves, by API key."""
    return {entry.api_key: range(entry.min_version, entry.max_version + 1) for entry in response.api_keys}


def newest_common(ours: range, theirs: range | None) -> int | None:
    """The newest version in both ranges; None if they have none in common."""
    if not ours or not theirs:
        return None
    newest = min(ours[-1], theirs[-1])
    return newest if newest >= max(ours[0], theirs[0]) else None
