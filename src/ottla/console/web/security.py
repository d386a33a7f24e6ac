"""Access rules of the console: one check of every request, before any page or action sees it.

- **Host**: only names of this machine's loopback interface, IP addresses if the console listens on another address, and
  the names that the operator allows. A page that has resolved its own name to this machine (DNS rebinding) is refused.
- **Origin**: a browser that names another origin, or `Sec-Fetch-Site` other than `same-origin`, may only open a page by
  a link. Everything else of other pages is refused, also from other ports of this machine.
- **Token**: a request that changes something carries the token of this process, which only our own pages contain.
- **Read-only**: every method but GET and HEAD is refused. GET never changes anything, so this is the only place.
- **Password**: with a password, every request carries it (HTTP Basic).

The same check adds the headers of each response: a Content-Security-Policy without inline scripts and styles, no
framing, no caching, no referrer. `refusal` is pure; `Gate` is the ASGI middleware.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.console.settings import LOOPBACK_NAMES, ConsoleSettings, is_address, is_loopback

TOKEN_FIELD = "token"  # noqa: S105 - the name of a form field
TOKEN_HEADER = "x-ottla-token"  # noqa: S105 - the name of a header
SAFE_METHODS = frozenset({"GET", "HEAD"})
BODY_BYTES_MAX = 1 << 20
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; font-src 'none'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types ottla"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Refusal:
    status: int
    reason: str
    headers: Mapping[str, str] = field(default_factory=dict)


def make_token() -> str:
    """A secret of this process."""
    return secrets.token_urlsafe(32)


def refusal(method: str, headers: Mapping[str, str], settings: ConsoleSettings) -> Refusal | None:
    """Why a request is refused; None if it is allowed. The token is checked by `token_matches`."""
    host = headers.get("host", "")
    if not _host_allowed(host, settings):
        return Refusal(421, f"The host name {host[:100]!r} is not one of this console.")
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != host:
        return Refusal(403, "Requests of other web pages are refused.")
    site = headers.get("sec-fetch-site", "none")
    is_link = method in SAFE_METHODS and headers.get("sec-fetch-mode") == "navigate"
    if site not in ("same-origin", "none") and not is_link:
        return Refusal(403, "Requests of other web pages are refused.")
    if settings.password and not _password_matches(headers.get("authorization", ""), settings.password):
        return Refusal(401, "A password is needed.", {"www-authenticate": 'Basic realm="Ottla console"'})
    if settings.read_only and method not in SAFE_METHODS:
        return Refusal(403, "This console is read-only.")
    return None


def token_matches(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _host_allowed(host: str, settings: ConsoleSettings) -> bool:
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname or "", parts.port or 80
    except ValueError:
        return False
    if port != settings.port or parts.username is not None or parts.path:
        return False
    bracketed = f"[{name}]" if ":" in name else name
    if bracketed in LOOPBACK_NAMES or name in settings.allowed_hosts:
        return True
    return not is_loopback(settings.host) and (is_address(name) or name == settings.host)


def _password_matches(authorization: str, password: str) -> bool:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        given = base64.b64decode(encoded, validate=True).partition(b":")[2]
    except ValueError:
        return False
    return hmac.compare_digest(given, password.encode())


class Gate:
    """ASGI middleware: refuses what `refusal` refuses, limits bodies, and adds the headers."""

    def __init__(self, app: ASGIApp, settings: ConsoleSettings) -> None:
        self._app, self._settings = app, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a WebSocket is not accepted
        headers = Headers(scope=scope)
        refused = refusal(scope["method"], headers, self._settings) or _too_large(headers)
        answer: ASGIApp = self._app
        if refused is not None:
            answer = PlainTextResponse(refused.reason + "\n", refused.status, dict(refused.headers))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                fields = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    fields[name] = value
                fields.setdefault("cache-control", "no-store")
            await send(message)

        await answer(scope, receive, send_with_headers)


def _too_large(headers: Headers) -> Refusal | None:
    """Bodies are forms of our own pages: small, and with a length."""
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length.isdigit() or int(length) > BODY_BYTES_MAX:
        return Refusal(413, f"A request body has a length of at most {BODY_BYTES_MAX} bytes.")
    return None
