"""A realm of Kerberos with users and a broker, and clients of the broker that follow or break the exchange."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from tests.support.kdc import REALM, Kdc
from tests.support.raw import Closed
from tests.support.sasl import SaslClient

SERVICE = "kafka/localhost"
USERS = ("alice", "bob", "carol/admin", "dave/x")
KERBEROS_MECHANISM, NEGOTIATION_MECHANISM = "1.2.840.113554.1.2.2", "1.3.6.1.5.5.2"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
RULES = "RULE:[2:$1-$2@$0](.*-admin@OTTLA.TEST)s/@.*//U,RULE:[1:$1@$0](bob@.*)s/b(.)b@.*/r$1b/,DEFAULT"
"""bob is rob, carol/admin is CAROL-ADMIN, the others have their first component."""


@dataclass(frozen=True)
class Realm:
    """A server of Kerberos, and the key tables of its principals."""

    kdc: Kdc
    tables: dict[str, Path]

    @classmethod
    def make(cls, kdc: Kdc) -> Realm:
        return cls(kdc, {name: kdc.add(name) for name in (SERVICE, "other/localhost", *USERS)})

    def jaas(self, principal: str = SERVICE, more: str = "") -> str:
        return (
            f'{KERBEROS} required useKeyTab=true storeKey=true keyTab="{self.tables[principal]}"'
            f' principal="{principal}@{REALM}"{more};'
        )

    def broker_settings(self, port: int, **more: str) -> dict[str, str]:
        """The settings of one node; `more` has `_` in place of `.`."""
        return {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"SASL_PLAINTEXT://localhost:{port}",
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.kerberos.principal.to.local.rules": RULES,
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": self.jaas(),
            "connection.failed.authentication.delay.ms": "10",
            "delegation.token.secret.key": "token-key",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:alice;User:kafka",
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def client_settings(self, user: str = "alice") -> dict[str, str]:
        """The settings of a Java client."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "sasl.jaas.config": self.jaas(user),
        }


class Ticket:
    """The client side of an exchange, step by step, with a fresh ticket of a user for a service."""

    def __init__(
        self,
        realm: Realm,
        user: str = "alice",
        service: str = "kafka",
        *,
        mutual: bool = True,
        mechanism: str = KERBEROS_MECHANISM,
    ) -> None:
        import gssapi

        flag = gssapi.RequirementFlag
        flags = flag.integrity | flag.mutual_authentication if mutual else flag.integrity
        table = str(realm.tables[user])
        store = {"client_keytab": table, "ccache": f"MEMORY:{table}"}
        name = gssapi.Name(f"{user}@{REALM}", gssapi.NameType.kerberos_principal)
        self.context = gssapi.SecurityContext(
            name=gssapi.Name(f"{service}@localhost", gssapi.NameType.hostbased_service),
            creds=gssapi.Credentials(name=name, usage="initiate", store=store),
            mech=gssapi.OID.from_int_seq(mechanism),
            flags=flags,
            usage="initiate",
        )
        self.first: bytes = self.context.step(None)

    def offer(self, client: SaslClient) -> bytes:
        """Send the tokens; return the wrapped offer of the broker."""
        client.handshake("GSSAPI")
        response = accepted(client.token(self.first))
        if not self.context.complete:
            assert self.context.step(bytes(response.auth_bytes)) is None
            response = accepted(client.token(b""))
        return bytes(response.auth_bytes)

    def choose(self, client: SaslClient, layer: bytes, authorization_id: bytes = b"") -> Any:
        """Answer the offer with a layer; return the response."""
        assert self.context.unwrap(self.offer(client)).message == b"\1\0\0\0"
        return client.token(self.context.wrap(layer + authorization_id, False).message)


def accepted(response: SaslAuthenticateResponse | Closed) -> SaslAuthenticateResponse:
    assert not isinstance(response, Closed)
    assert response.error_code == 0, response.error_message
    return response


def user_of(client: SaslClient) -> str:
    """The principal of the connection, as the broker knows it."""
    response = client.ask(CreateDelegationTokenRequest(), 3, CreateDelegationTokenResponse)
    assert not isinstance(response, Closed)
    assert response.error_code == 0
    return f"{response.principal_type}:{response.principal_name}"
