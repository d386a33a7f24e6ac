"""Requests to an identity provider on loopback, and files."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.security.sasl.oauth.endpoints import (
    RESPONSE_BYTES_MAX,
    TokenEndpoint,
    check_url,
    fetch,
    fetch_token,
)

SECRET = "hunter2"


class Handler(BaseHTTPRequestHandler):
    """Returns what the path describes; `/token` the credentials of the request as a token."""

    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "file:///etc/passwd")
            self.end_headers()
            return
        self._respond(b"x" * (RESPONSE_BYTES_MAX + 1) if self.path == "/large" else b"content")

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.path == "/denied":
            self.send_error(401, f"denied {SECRET}")
            return
        if self.path == "/empty":
            self._respond(b"{}")
            return
        pair = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self._respond(json.dumps({"access_token": f"{pair}.{form}"}).encode())

    def _respond(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        pass


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_content(provider: str, tmp_path: Path) -> None:
    assert fetch(f"{provider}/keys") == b"content"
    (tmp_path / "keys file").write_bytes(b"keys")
    assert fetch((tmp_path / "keys file").as_uri()) == b"keys"


@pytest.mark.parametrize("path", ["/large", "/redirect"])
def test_refused_content(provider: str, path: str) -> None:
    """A redirect to a file is not followed: CVE-2025-27817 read files of the server that way."""
    with pytest.raises(LocalError, match="is not available"):
        fetch(provider + path)


def test_a_file_that_is_missing_or_large(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(RESPONSE_BYTES_MAX + 1))
    for name in ("missing", "large"):
        with pytest.raises(LocalError, match="is not available"):
            fetch((tmp_path / name).as_uri())


def test_a_token_by_client_credentials(provider: str) -> None:
    endpoint = TokenEndpoint(f"{provider}/token", "app", SECRET, "kafka")
    assert fetch_token(endpoint) == f"app:{SECRET}.grant_type=client_credentials&scope=kafka"
    assert SECRET not in repr(endpoint)


def test_a_token_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c\n")
    assert fetch_token(TokenEndpoint((tmp_path / "token").as_uri())) == "a.b.c"


@pytest.mark.parametrize("path", ["/denied", "/empty"])
def test_no_token(provider: str, path: str) -> None:
    with pytest.raises(LocalError, match="returned no") as refused:
        fetch_token(TokenEndpoint(provider + path, "app", SECRET))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["", "text", "ftp://a/b", "jar:file:///x", "https:", "file:", "javascript:alert(1)"]
)
def test_urls_of_other_schemes(url: str) -> None:
    with pytest.raises(LocalError, match="is not a URL"):
        check_url("setting", url)
