"""Logins of clients with GSSAPI, from the options of their login configuration."""

from __future__ import annotations

import pytest

from ottla.security.sasl.kerberos.credentials import Initiator, client_initiator


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Initiator("kafka")),
        ({"useTicketCache": "true", "ticketCache": "/tmp/t"}, Initiator("kafka", ticket_cache="/tmp/t")),  # noqa: S108
        ({"principal": "ann"}, Initiator("kafka", "ann")),
        ({"useKeyTab": "true", "keyTab": "k", "principal": "ann"}, Initiator("kafka", "ann", "k")),
    ],
)
def test_the_login_of_a_client(options: dict[str, str], expected: Initiator) -> None:
    assert client_initiator("kafka", options) == expected


def test_a_client_with_a_key_table_needs_its_principal() -> None:
    with pytest.raises(ValueError, match="keyTab and principal"):
        client_initiator("kafka", {"useKeyTab": "true", "keyTab": "k"})


def test_the_name_of_the_service() -> None:
    assert client_initiator(None, {"serviceName": "broker"}).service == "broker"
    assert client_initiator("broker", {"serviceName": "broker"}).service == "broker"
    with pytest.raises(ValueError, match="differ"):
        client_initiator("kafka", {"serviceName": "broker"})
    with pytest.raises(ValueError, match=r"needs sasl\.kerberos\.service\.name"):
        client_initiator(None, {})


def test_tickets_of_a_key_table_are_kept_in_memory() -> None:
    store = Initiator("kafka", "ann", "/etc/k").store()
    assert store["client_keytab"] == "/etc/k"
    assert store["ccache"].startswith("MEMORY:")
    assert store["ccache"] != Initiator("kafka", "ann", "/etc/other").store()["ccache"]
    assert Initiator("kafka", ticket_cache="FILE:/t").store() == {"ccache": "FILE:/t"}
    assert Initiator("kafka").store() == {}
