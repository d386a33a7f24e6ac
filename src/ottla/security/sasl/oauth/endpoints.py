"""Requests to an identity provider, and files in their place: key sets and tokens. All functions block.

Only `https:`, `http:` and `file:` URLs are used; a redirect may not lead to a file. Responses are limited in size.
Error messages contain neither secrets nor responses.

urllib.request, with HTTP and e-mail headers, is imported by the first request: the settings of every broker refer to
this module, and most brokers send none.
"""

from __future__ import annotations

import base64
import json
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.base.errors import LocalError

if TYPE_CHECKING:
    import urllib.request

RESPONSE_BYTES_MAX: Final = 1 << 20
_SCHEMES: Final = ("https", "http", "file")


class TokenEndpoint(NamedTuple):
    """Where a client gets its tokens, with the grant `client_credentials`."""

    url: str
    client_id: str = ""
    client_secret: str = ""
    scope: str | None = None
    timeout_s: float = 10.0

    def __repr__(self) -> str:
        return f"TokenEndpoint({self.url})"


def check_url(setting: str, url: str) -> None:
    """Raise LocalError unless the URL has a scheme that is supported."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in _SCHEMES or not (parts.netloc or (parts.scheme == "file" and parts.path)):
        raise LocalError(f"{setting} is not a URL; allowed: https:, http: or file: URLs")


def fetch(url: str, timeout_s: float = 10.0) -> bytes:
    """The content of a URL; LocalError if it is not available."""
    import urllib.request

    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            with Path(urllib.request.url2pathname(parts.path)).open("rb") as file:
                return _limited(file.read(RESPONSE_BYTES_MAX + 1))
        return _send(urllib.request.Request(url, headers={"Accept": "application/json"}), timeout_s)  # noqa: S310
    except (OSError, ValueError) as error:
        raise LocalError(f"{url} is not available: {_reason(error)}") from error


def fetch_token(endpoint: TokenEndpoint) -> str:
    """A token: the content of a file, or the response to a request with the credentials of the client."""
    import urllib.request

    if endpoint.url.startswith("file:"):
        return fetch(endpoint.url).decode("ascii", "replace").strip()
    form = {"grant_type": "client_credentials"} | ({"scope": endpoint.scope} if endpoint.scope else {})
    pair = f"{endpoint.client_id}:{endpoint.client_secret}".encode()
    request = urllib.request.Request(  # noqa: S310 - `check_url` has checked the scheme
        endpoint.url,
        urllib.parse.urlencode(form).encode(),
        {
            "Accept": "application/json",
            "Authorization": "Basic " + base64.b64encode(pair).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
        },
    )
    try:
        response = json.loads(_send(request, endpoint.timeout_s))
    except (OSError, ValueError) as error:
        raise LocalError(f"{endpoint.url} returned no token: {_reason(error)}") from error
    token = response.get("access_token") if isinstance(response, dict) else None
    if not isinstance(token, str) or not token.isascii() or not token:
        raise LocalError(f"{endpoint.url} returned no access_token")
    return token


def _opener() -> urllib.request.OpenerDirector:
    """The handlers of HTTP alone: without them, a redirect could lead to a file."""
    import urllib.request

    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPRedirectHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _send(request: urllib.request.Request, timeout_s: float) -> bytes:
    with _opener().open(request, timeout=timeout_s) as response:
        return _limited(response.read(RESPONSE_BYTES_MAX + 1))


def _limited(content: bytes) -> bytes:
    if len(content) > RESPONSE_BYTES_MAX:
        raise ValueError(f"more than {RESPONSE_BYTES_MAX} bytes")
    return content


def _reason(error: Exception) -> str:
    import urllib.error

    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return error.strerror or "an I/O error" if isinstance(error, OSError) else "not a valid response"
