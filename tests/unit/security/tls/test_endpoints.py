"""Configurations of listeners and clients: principals, replacement, warnings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.security.principal import ANONYMOUS, user
from ottla.security.tls.endpoints import (
    check_own_clients,
    check_replacement,
    expiry_warning,
    load_client,
    load_server,
)
from ottla.security.tls.settings import ClientAuth, TlsSettings
from ottla.security.tls.stores import StoreSource
from tests.support.certificates import Authority
from tests.support.tls import client_of, connect, server_loaded, server_of, settings_of

AUTHORITY = Authority()
OWN = AUTHORITY.issue("server")
REQUIRED = ClientAuth.REQUIRED


def test_the_principal_is_the_mapped_name_of_the_certificate() -> None:
    server = server_of(OWN, AUTHORITY, client_auth=REQUIRED, mapping_rules="RULE:CN=(alice)/$1/U")
    for name, expected in (("alice", user("ALICE")), ("bob", None)):
        stream = server.new_stream()
        connect(client_of(AUTHORITY, AUTHORITY.issue(name)).new_stream("localhost"), stream)
        if expected is None:
            with pytest.raises(LocalError, match=r"ssl\.principal\.mapping\.rules matches CN=bob"):
                server.principal_of(stream)
        else:
            assert server.principal_of(stream) == expected


def test_without_a_certificate_the_client_is_anonymous() -> None:
    server = server_of(OWN)
    stream = server.new_stream()
    connect(client_of(AUTHORITY).new_stream("localhost"), stream)
    assert server.principal_of(stream) is ANONYMOUS


def test_a_listener_needs_a_key() -> None:
    with pytest.raises(LocalError, match=r"ssl\.keystore\.location or ssl\.keystore\.key is missing"):
        load_server(settings_of(None, AUTHORITY))


def test_loaded_configurations_are_equal_if_settings_and_files_are(tmp_path: Path) -> None:
    path = OWN.write_pem(tmp_path / "own.pem")
    settings = TlsSettings(StoreSource("ssl.keystore.location", str(path)), StoreSource("t"))
    before = load_server(settings)
    assert load_server(settings) == before
    AUTHORITY.issue("server").write_pem(path)
    assert load_server(settings) != before


@pytest.mark.parametrize(
    ("name", "hosts", "allowed", "message"),
    [
        ("server", ("localhost", "127.0.0.1"), (False, False), None),
        ("server", ("localhost", "127.0.0.1", "more"), (False, False), None),
        ("other", ("localhost", "127.0.0.1"), (False, False), "is of CN=other, the one before of CN=server"),
        ("other", ("localhost", "127.0.0.1"), (True, False), None),
        ("server", ("localhost",), (False, False), "fewer alternative names"),
        ("server", (), (False, True), None),
    ],
)
def test_names_of_a_reloaded_certificate(
    name: str, hosts: tuple[str, ...], allowed: tuple[bool, bool], message: str | None
) -> None:
    after = server_loaded(AUTHORITY.issue(name, hosts))
    dn, san = allowed
    if message is None:
        check_replacement(server_loaded(OWN), after, allow_dn_changes=dn, allow_san_changes=san)
    else:
        with pytest.raises(LocalError, match=message):
            check_replacement(server_loaded(OWN), after, allow_dn_changes=dn, allow_san_changes=san)


def test_stores_are_not_added_or_removed() -> None:
    with_key, without = load_client(settings_of(OWN, AUTHORITY)), load_client(settings_of(None, AUTHORITY))
    for before, after in ((with_key, without), (without, with_key)):
        with pytest.raises(LocalError, match="a key store cannot be added"):
            check_replacement(before, after, allow_dn_changes=True, allow_san_changes=True)
    check_replacement(without, without, allow_dn_changes=False, allow_san_changes=False)
    with pytest.raises(LocalError, match="a trust store cannot be added"):
        check_replacement(
            server_loaded(OWN), server_loaded(OWN, AUTHORITY), allow_dn_changes=True, allow_san_changes=True
        )


def test_replaced_configurations_apply_to_new_connections() -> None:
    server, client = server_of(OWN), client_of(AUTHORITY)
    other = Authority("other")
    server.replace(server_loaded(other.issue("server")))
    client.replace(client_of(other).loaded)
    connect(client.new_stream("localhost"), server.new_stream())


def test_an_expired_certificate_is_a_warning() -> None:
    expired = server_loaded(AUTHORITY.issue("old", ends=timedelta(days=-3)))
    now = datetime.now(UTC)
    warning = expiry_warning(expired, now)
    assert warning is not None
    assert "CN=old has expired at" in warning
    assert expiry_warning(server_loaded(OWN), now) is None
    assert expiry_warning(load_client(settings_of(None, AUTHORITY)), now) is None


def test_own_clients_must_be_able_to_connect() -> None:
    mutual = {"client_auth": REQUIRED}
    check_own_clients(server_loaded(OWN, AUTHORITY, **mutual), load_client(settings_of(OWN, AUTHORITY)))
    foreign = Authority("foreign")
    with pytest.raises(LocalError, match="the key store does not match the trust store"):
        check_own_clients(server_loaded(OWN, foreign), load_client(settings_of(OWN, foreign)))
    with pytest.raises(LocalError, match="the key store does not match the trust store"):
        check_own_clients(server_loaded(OWN, foreign, **mutual), load_client(settings_of(OWN, AUTHORITY)))
