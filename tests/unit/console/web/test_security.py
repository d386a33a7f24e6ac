"""The access rules of the console: which requests are refused."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from ottla.base.errors import LocalError
from ottla.console.settings import ConsoleSettings
from ottla.console.web.security import POLICY, refusal, token_matches

LOCAL = ConsoleSettings("127.0.0.1:9092", port=8080)
OPEN = ConsoleSettings("127.0.0.1:9092", host="0.0.0.0", port=8080, password="secret")  # noqa: S104


def status(settings: ConsoleSettings = LOCAL, method: str = "GET", **headers: str) -> int:
    given = {"host": "127.0.0.1:8080"} | {name.replace("_", "-"): value for name, value in headers.items()}
    refused = refusal(method, given, settings)
    return 200 if refused is None else refused.status


def basic(password: str) -> str:
    return "Basic " + base64.b64encode(f"any:{password}".encode()).decode()


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080"])
def test_names_of_the_loopback_interface_are_allowed(host: str) -> None:
    assert status(host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8080",
        "evil.example",
        "127.0.0.1:8081",
        "127.0.0.1",
        "",
        "10.0.0.1:8080",
        "user@127.0.0.1:8080",
        "127.0.0.1:8080/x",
        "127.0.0.1:port",
        "localhost.evil.example:8080",
    ],
)
def test_other_host_names_are_refused(host: str) -> None:
    assert status(host=host) == 421


def test_a_name_can_be_allowed() -> None:
    settings = replace(LOCAL, allowed_hosts=frozenset({"console.test"}))
    assert status(settings, host="console.test:8080") == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:9999", "null", "http://127.0.0.1:8080.evil.example"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_origin_is_refused(origin: str, method: str) -> None:
    assert status(method=method, origin=origin) == 403


def test_our_own_origin_is_allowed() -> None:
    assert status(method="POST", origin="http://127.0.0.1:8080", sec_fetch_site="same-origin") == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_page_may_only_link(site: str) -> None:
    assert status(sec_fetch_site=site, sec_fetch_mode="navigate") == 200
    assert status(sec_fetch_site=site, sec_fetch_mode="no-cors") == 403
    assert status(sec_fetch_site=site) == 403
    assert status(method="POST", sec_fetch_site=site, sec_fetch_mode="navigate") == 403


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_read_only_refuses_every_other_method(method: str) -> None:
    assert status(replace(LOCAL, read_only=True), method) == 403


def test_read_only_allows_reading() -> None:
    settings = replace(LOCAL, read_only=True)
    assert status(settings) == 200
    assert status(settings, "HEAD") == 200


def test_another_address_needs_a_password() -> None:
    with pytest.raises(LocalError, match="OTTLA_CONSOLE_PASSWORD"):
        ConsoleSettings("127.0.0.1:9092", host="0.0.0.0")  # noqa: S104
    with pytest.raises(LocalError):
        ConsoleSettings("127.0.0.1:9092", host="console.test")


def test_the_password_is_checked() -> None:
    assert status(OPEN, host="10.0.0.1:8080") == 401
    assert status(OPEN, host="10.0.0.1:8080", authorization=basic("wrong")) == 401
    assert status(OPEN, host="10.0.0.1:8080", authorization="Basic %%%") == 401
    assert status(OPEN, host="10.0.0.1:8080", authorization="Bearer secret") == 401
    assert status(OPEN, host="10.0.0.1:8080", authorization=basic("secret")) == 200
    assert status(OPEN, host="evil.example:8080", authorization=basic("secret")) == 421


def test_the_password_is_not_part_of_the_text_of_settings() -> None:
    assert "secret" not in repr(OPEN)


def test_the_token_must_match() -> None:
    assert token_matches("abc", "abc")
    assert not token_matches("", "abc")
    assert not token_matches("äbc", "abc")


def test_the_policy_has_no_inline_code() -> None:
    assert "unsafe" not in POLICY
    assert "default-src 'none'" in POLICY
