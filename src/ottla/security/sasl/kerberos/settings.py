"""Settings of GSSAPI on a broker: the key of a listener with the rules for names, and the login to other nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.sasl.exchange import GSSAPI
from ottla.security.sasl.kerberos.credentials import SERVICE_NAME, Initiator, KeyTable, is_true, service_name
from ottla.security.sasl.kerberos.short_names import check_rules
from ottla.security.sasl.listener_values import ListenerValues

_RULES: Final = "sasl.kerberos.principal.to.local.rules"


class KerberosListener(Struct, frozen=True):
    """How a listener authenticates clients."""

    table: KeyTable
    rules: tuple[str, ...]


def parse_kerberos(
    config: BrokerConfig, listener: str, name: str, options: Mapping[str, str]
) -> KerberosListener:
    """The settings of a listener; `name` is the setting with the login configuration, `options` are its options."""
    values = ListenerValues(config, listener, GSSAPI)
    rules = tuple(values.names(_RULES))
    try:
        check_rules(rules)
    except ValueError as error:
        raise ConfigRefused(_RULES, f"{_RULES}: {error}") from error
    _service(values, options)
    return KerberosListener(_key_table(name, options), rules)


def parse_initiator(config: BrokerConfig, listener: str, name: str, options: Mapping[str, str]) -> Initiator:
    """The login of this node to that listener of other nodes."""
    table = _key_table(name, options)
    service = _service(ListenerValues(config, listener, GSSAPI), options)
    return Initiator(service, table.principal, table.path)


def _key_table(name: str, options: Mapping[str, str]) -> KeyTable:
    path, principal = options.get("keyTab"), options.get("principal")
    if not is_true(options, "useKeyTab") or not path or not principal:
        raise ConfigRefused(
            name, f'{name} needs useKeyTab=true, keyTab="<file>" and principal="<service>/<host>@<realm>"'
        )
    return KeyTable(path, principal)


def _service(values: ListenerValues, options: Mapping[str, str]) -> str:
    try:
        return service_name(values.text(SERVICE_NAME), options)
    except ValueError as error:
        raise ConfigRefused(SERVICE_NAME, str(error)) from error
