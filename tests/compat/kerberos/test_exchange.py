"""The exchange of GSSAPI with a real server of Kerberos, token by token: what a broker accepts and refuses."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from ottla.local.ports import free_port
from tests.compat.kerberos.realm import NEGOTIATION_MECHANISM, SERVICE, Realm, Ticket, accepted, user_of
from tests.support.kdc import Kdc
from tests.support.raw import CLOSED, Closed
from tests.support.sasl import SaslClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat
NO_LAYER = b"\1\0\0\0"
GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"


@pytest.fixture
def client(kerberos_broker: BrokerProcess) -> Iterator[SaslClient]:
    with SaslClient(kerberos_broker.bootstrap) as made:
        yield made


def refuses(client: SaslClient, token: bytes) -> None:
    """The token must be refused with the text for all causes, and the connection closed."""
    response = client.token(token)
    assert not isinstance(response, Closed)
    assert (response.error_code, response.error_message) == (58, GENERIC)
    assert client.read_frame() is CLOSED


@pytest.mark.parametrize("mutual", [True, False])
@pytest.mark.parametrize(
    ("user", "name"),
    [("alice", "alice"), ("bob", "rob"), ("carol/admin", "CAROL-ADMIN"), ("dave/x", "dave")],
)
def test_the_user_has_the_name_that_the_rules_give(
    realm: Realm, client: SaslClient, user: str, name: str, *, mutual: bool
) -> None:
    response = accepted(Ticket(realm, user, mutual=mutual).choose(client, NO_LAYER))
    assert (response.auth_bytes, response.session_lifetime_ms) == (b"", 0)
    assert user_of(client) == f"User:{name}"


@pytest.mark.parametrize("authorization_id", [b"alice@OTTLA.TEST", b"kafka@localhost", b"bob", b"\xff"])
def test_an_authorization_id_never_changes_the_user(
    realm: Realm, client: SaslClient, authorization_id: bytes
) -> None:
    accepted(Ticket(realm, "alice").choose(client, NO_LAYER, authorization_id))
    assert user_of(client) == "User:alice"


@pytest.mark.parametrize("layer", [b"\2\0\xff\xff", b"\4\0\xff\xff", b"\3\0\0\0", b"\0\0\0\0"])
def test_another_security_layer_is_refused(realm: Realm, client: SaslClient, layer: bytes) -> None:
    response = Ticket(realm).choose(client, layer)
    assert (response.error_code, response.error_message) == (58, GENERIC)
    assert client.read_frame() is CLOSED


def test_a_choice_that_is_short_is_refused(realm: Realm, client: SaslClient) -> None:
    assert Ticket(realm).choose(client, b"\1\0\0").error_code == 58
    assert client.read_frame() is CLOSED


def test_a_choice_without_proof_is_refused(realm: Realm, client: SaslClient) -> None:
    Ticket(realm).offer(client)
    refuses(client, NO_LAYER)


def test_a_choice_of_another_context_is_refused(realm: Realm, client: SaslClient) -> None:
    other = Ticket(realm, mutual=False)
    Ticket(realm).offer(client)
    refuses(client, other.context.wrap(NO_LAYER, False).message)


def test_a_token_for_another_service_is_refused(realm: Realm, client: SaslClient) -> None:
    client.handshake("GSSAPI")
    refuses(client, Ticket(realm, service="other").first)


def test_a_token_that_negotiates_the_mechanism_is_refused(realm: Realm, client: SaslClient) -> None:
    client.handshake("GSSAPI")
    refuses(client, Ticket(realm, mechanism=NEGOTIATION_MECHANISM).first)


@pytest.mark.parametrize("size", [0, 1, 100, -1])
def test_a_truncated_token_is_refused(realm: Realm, client: SaslClient, size: int) -> None:
    client.handshake("GSSAPI")
    refuses(client, Ticket(realm).first[:size])


@pytest.mark.parametrize("token", [bytes(1), os.urandom(2000), b"\x60\x84\xff\xff\xff\xff" + bytes(500)])
def test_a_token_of_garbage_is_refused(client: SaslClient, token: bytes) -> None:
    client.handshake("GSSAPI")
    refuses(client, token)


def test_a_changed_token_is_refused(realm: Realm, client: SaslClient) -> None:
    token = bytearray(Ticket(realm).first)
    token[-20] ^= 1
    client.handshake("GSSAPI")
    refuses(client, bytes(token))


def test_a_large_token_of_garbage_is_refused(client: SaslClient) -> None:
    client.handshake("GSSAPI")
    refuses(client, os.urandom(500_000))


def test_a_token_above_the_limit_closes_the_connection(client: SaslClient) -> None:
    client.handshake("GSSAPI")
    client.send(struct.pack(">i", 600_000))
    assert client.read_frame() is CLOSED


def test_a_token_without_a_handshake_closes_the_connection(realm: Realm, client: SaslClient) -> None:
    """Clients of Kafka 0.9 began with a token; Kafka 4 does not accept that."""
    token = Ticket(realm).first
    client.send(struct.pack(">i", len(token)) + token)
    assert client.read_frame() is CLOSED


def test_a_replay_closes_the_connection_so_that_the_client_tries_again(
    realm: Realm, kerberos_broker: BrokerProcess, client: SaslClient
) -> None:
    ticket = Ticket(realm)
    ticket.offer(client)
    with SaslClient(kerberos_broker.bootstrap) as other:
        other.handshake("GSSAPI")
        assert other.token(ticket.first) is CLOSED


def test_bare_tokens_after_the_first_version_of_the_handshake(realm: Realm, client: SaslClient) -> None:
    ticket = Ticket(realm, mutual=False)
    client.handshake("GSSAPI", version=0)
    client.send(struct.pack(">i", len(ticket.first)) + ticket.first)
    offer = client.read_frame()
    assert not isinstance(offer, Closed)
    assert ticket.context.unwrap(bytes(offer)).message == NO_LAYER
    choice = ticket.context.wrap(NO_LAYER, False).message
    client.send(struct.pack(">i", len(choice)) + choice)
    assert client.read_frame() == b""
    assert user_of(client) == "User:alice"


def test_sessions_end_after_the_time_of_the_setting(realm: Realm, tmp_path: Path) -> None:
    port = free_port()
    settings = realm.broker_settings(port, connections_max_reauth_ms="600000")
    with BrokerProcess(tmp_path / "data", settings, port=port) as broker:
        with SaslClient(broker.bootstrap) as client:
            assert accepted(Ticket(realm).choose(client, NO_LAYER)).session_lifetime_ms == 600_000
            assert accepted(Ticket(realm).choose(client, NO_LAYER)).session_lifetime_ms == 600_000
            assert user_of(client) == "User:alice"
        with SaslClient(broker.bootstrap) as client:
            accepted(Ticket(realm).choose(client, NO_LAYER))
            response = Ticket(realm, "dave/x").choose(client, NO_LAYER)
            assert response.error_code == 58
            assert "Cannot change principals" in response.error_message


def test_a_new_key_of_the_service_is_used_without_a_restart(realm: Realm, tmp_path: Path) -> None:
    realm.tables["turn/localhost"] = realm.kdc.add("turn/localhost")
    port = free_port()
    settings = realm.broker_settings(port, sasl_kerberos_service_name="turn")
    settings["listener.name.sasl_plaintext.gssapi.sasl.jaas.config"] = realm.jaas("turn/localhost")
    with BrokerProcess(tmp_path / "data", settings, port=port) as broker:
        realm.kdc.change_key("turn/localhost")
        with SaslClient(broker.bootstrap) as client:
            client.handshake("GSSAPI")
            refuses(client, Ticket(realm, service="turn").first)
        realm.kdc.key_table("turn/localhost")
        with SaslClient(broker.bootstrap) as client:
            accepted(Ticket(realm, service="turn").choose(client, NO_LAYER))


def test_another_key_of_the_key_table_is_not_used(realm: Realm, tmp_path: Path) -> None:
    realm.kdc.add("both/localhost")
    realm.tables["both/localhost"] = realm.kdc.key_table("both/localhost", "other/localhost")
    port = free_port()
    settings = realm.broker_settings(port)
    settings["listener.name.sasl_plaintext.gssapi.sasl.jaas.config"] = realm.jaas("both/localhost")
    with BrokerProcess(tmp_path / "data", settings, port=port) as broker:
        with SaslClient(broker.bootstrap) as client:
            accepted(Ticket(realm, service="both").choose(client, NO_LAYER))
        with SaslClient(broker.bootstrap) as client:
            client.handshake("GSSAPI")
            refuses(client, Ticket(realm, service="other").first)


def test_a_principal_without_a_rule_is_refused(realm: Realm, tmp_path: Path) -> None:
    port = free_port()
    rules = "RULE:[1:$1@$0](alice@.*)s/@.*//"
    settings = realm.broker_settings(port, sasl_kerberos_principal_to_local_rules=rules)
    with BrokerProcess(tmp_path / "data", settings, port=port) as broker:
        with SaslClient(broker.bootstrap) as client:
            accepted(Ticket(realm).choose(client, NO_LAYER))
        with SaslClient(broker.bootstrap) as client:
            assert Ticket(realm, "bob").choose(client, NO_LAYER).error_code == 58
        wait_until(lambda: "no rule of sasl.kerberos.principal.to.local.rules" in broker.output(), "the log")
        assert "bob@OTTLA.TEST" in broker.output()


@pytest.mark.parametrize("fault", ["missing file", "another principal"])
def test_a_broker_without_its_key_does_not_start(realm: Realm, tmp_path: Path, fault: str) -> None:
    table = tmp_path / "missing" if fault == "missing file" else realm.tables["alice"]
    port = free_port()
    settings = realm.broker_settings(port)
    name = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    settings[name] = settings[name].replace(str(realm.tables[SERVICE]), str(table))
    with pytest.raises(BrokerNotStarted, match=r"no key of kafka/localhost@OTTLA\.TEST") as refused:
        BrokerProcess(tmp_path / "data", settings, port=port).start()
    assert str(table) in str(refused.value)
    assert "Traceback" not in str(refused.value)


def test_a_broker_needs_no_server_of_kerberos_to_start_and_to_accept_tickets(
    realm: Realm, tmp_path: Path
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kdc = Kdc(tmp_path)
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        with kdc:
            own = Realm.make(kdc)
            ticket = Ticket(own)
        port = free_port()
        with (
            BrokerProcess(tmp_path / "data", own.broker_settings(port), port=port) as broker,
            SaslClient(broker.bootstrap) as client,
        ):
            accepted(ticket.choose(client, NO_LAYER))
