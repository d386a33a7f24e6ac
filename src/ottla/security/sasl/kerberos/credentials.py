"""Credentials of GSSAPI: key tables and ticket caches, and the login of a client.

The login configuration is that of Java's `Krb5LoginModule`. A node uses a key table (`useKeyTab=true`, `keyTab`,
`principal`), a client a key table or a ticket cache (`useTicketCache=true`, `ticketCache`). Other options, such as
`storeKey`, have no effect: the library of Kerberos does what they ask for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

SERVICE_NAME: Final = "sasl.kerberos.service.name"
_JAAS_SERVICE_NAME: Final = "serviceName"


class KeyTable(Struct, frozen=True):
    """A file with the key of a principal."""

    path: str
    principal: str


class Initiator(Struct, frozen=True):
    """How a node or a client authenticates itself."""

    service: str
    """The first component of the principal of brokers; the second is the name of the host."""
    principal: str | None = None
    """The own principal; None for that of the ticket cache."""
    key_table: str | None = None
    ticket_cache: str | None = None
    """The cache with a ticket; None for the usual one of the user of this process."""

    def store(self) -> dict[str, str]:
        """Where the library finds the credentials, in its terms."""
        if self.key_table is not None:
            # Tickets got with the key are kept in memory: the cache of the user of this process is not changed.
            return {"client_keytab": self.key_table, "ccache": f"MEMORY:{self.principal} {self.key_table}"}
        return {} if self.ticket_cache is None else {"ccache": self.ticket_cache}


def client_initiator(service: str | None, options: Mapping[str, str]) -> Initiator:
    """The login of a client from the options of its login configuration; ValueError if they contradict each other."""
    name = service_name(service, options)
    principal = options.get("principal")
    if is_true(options, "useKeyTab"):
        key_table = options.get("keyTab")
        if not key_table or not principal:
            raise ValueError("a login with useKeyTab=true needs keyTab and principal")
        return Initiator(name, principal, key_table)
    return Initiator(name, principal, ticket_cache=options.get("ticketCache"))


def service_name(configured: str | None, options: Mapping[str, str]) -> str:
    """The name in the login configuration or in the setting; ValueError if there is none, or two different ones."""
    own = options.get(_JAAS_SERVICE_NAME)
    if own and configured and own != configured:
        raise ValueError(
            f"{SERVICE_NAME}={configured} and {_JAAS_SERVICE_NAME}={own} of sasl.jaas.config differ"
        )
    name = own or configured
    if not name:
        raise ValueError(
            f"GSSAPI needs {SERVICE_NAME}, the first part of the principal of brokers, such as kafka"
        )
    return name


def is_true(options: Mapping[str, str], option: str) -> bool:
    return options.get(option, "").lower() == "true"
