"""Parsing of `listeners` and related settings: the sockets to open and the advertised addresses.

Syntax and checks are Kafka's. Listeners in `controller.listener.names` are those of the quorum: a node with the broker
role alone has none, and a node with the controller role alone has no others.
"""

from __future__ import annotations

import ipaddress
import re

from msgspec import Struct

from ottla.broker.net.listeners import Listener, ListenerType
from ottla.config import BrokerConfig, ConfigRefused
from ottla.node.settings.quorum_config import Role, VoterAddress
from ottla.security.protocol import SecurityProtocol

PROTOCOLS = tuple(SecurityProtocol.__members__)
_ENDPOINT = re.compile(r"([A-Za-z0-9_.\-]+)://(?:\[([0-9A-Fa-f:.%\w]*)\]|([0-9A-Za-z\-%._:]*)):(-?[0-9]+)")
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - recognized, not bound here


class Endpoint(Struct, frozen=True):
    """One entry of `listeners`: an empty host means every interface."""

    name: str
    host: str
    port: int


class Listeners(Struct, frozen=True):
    clients: tuple[Listener, ...]
    controllers: tuple[Listener, ...]
    inter_broker: str
    """The listener for other brokers; empty without the broker role."""
    controller_name: str
    """The listener of controllers to which this node connects; it may belong to other nodes only."""
    controller_protocol: SecurityProtocol


COMBINED = frozenset(Role)


def parse_listeners(
    config: BrokerConfig,
    machine: str,
    roles: frozenset[Role] = COMBINED,
    voter: VoterAddress | None = None,
) -> Listeners:
    """Parse the listeners.

    `machine` is the advertised host of a listener on every interface, `voter` the address of this node as a voter, if
    it is one.
    """
    endpoints = _endpoints("listeners", config.list("listeners"))
    controller_names = [name.upper() for name in config.list("controller.listener.names")]
    if "listeners" not in config.explicit:
        endpoints = [each for each in endpoints if _has_role(each, controller_names, roles)]
    _check_ports(endpoints)
    _check_roles(endpoints, controller_names, roles)
    protocols = _protocols(config, [each.name for each in endpoints], controller_names)
    advertised = _advertised(config, endpoints, controller_names, roles)
    clients = tuple(
        _listener(endpoint, advertised.get(endpoint.name), machine, protocols[endpoint.name])
        for endpoint in endpoints
        if endpoint.name not in controller_names
    )
    controllers = tuple(
        _controller(endpoint, advertised.get(endpoint.name), machine, protocols[endpoint.name], voter)
        for endpoint in endpoints
        if endpoint.name in controller_names
    )
    inter_broker = _inter_broker(config, clients) if Role.BROKER in roles else ""
    controller_name = controller_names[0]
    return Listeners(clients, controllers, inter_broker, controller_name, protocols[controller_name])


def _has_role(endpoint: Endpoint, controller_names: list[str], roles: frozenset[Role]) -> bool:
    return (Role.CONTROLLER if endpoint.name in controller_names else Role.BROKER) in roles


def _check_roles(endpoints: list[Endpoint], controller_names: list[str], roles: frozenset[Role]) -> None:
    """Refuse listeners of a role that this node does not have."""
    surplus = [each.name for each in endpoints if not _has_role(each, controller_names, roles)]
    if surplus and Role.CONTROLLER not in roles:
        text = f"listeners: {surplus[0]} is in controller.listener.names, but process.roles is broker only; remove it"
        raise ConfigRefused("listeners", text)
    if surplus:
        text = (
            f"listeners: {surplus[0]} is not in controller.listener.names, but process.roles is controller only; "
            "remove it"
        )
        raise ConfigRefused("listeners", text)
    if Role.BROKER in roles and all(each.name in controller_names for each in endpoints):
        raise ConfigRefused(
            "listeners", "listeners: all of them are in controller.listener.names; add a listener for clients"
        )


def is_loopback(host: str) -> bool:
    if host in _EVERYWHERE:
        return False
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _endpoints(setting: str, entries: list[str]) -> list[Endpoint]:
    endpoints: list[Endpoint] = []
    for entry in entries:
        match = _ENDPOINT.fullmatch(entry)
        if match is None:
            raise ConfigRefused(setting, f"{setting}: entry {entry!r}; allowed: NAME://host:port")
        if int(match[4]) > 65_535:
            raise ConfigRefused(
                setting, f"{setting}: port {match[4]} of {match[1].upper()}; allowed: 0 to 65535"
            )
        host = match[3] if match[2] is None else match[2]
        endpoints.append(Endpoint(match[1].upper(), host, int(match[4])))
    names = [endpoint.name for endpoint in endpoints]
    if len(set(names)) != len(names):
        raise ConfigRefused(setting, f"{setting}: two listeners have the same name")
    return endpoints


def _check_ports(endpoints: list[Endpoint]) -> None:
    """Refuse two listeners on one port, unless one has an IPv4 and the other an IPv6 address."""
    by_port: dict[int, list[Endpoint]] = {}
    for endpoint in endpoints:
        if endpoint.port < 0:
            raise ConfigRefused(
                "listeners", f"listeners: port {endpoint.port} of {endpoint.name}; allowed: 0 to 65535"
            )
        by_port.setdefault(endpoint.port, []).append(endpoint)
    for port, sharing in by_port.items():
        families = [":" in endpoint.host for endpoint in sharing]
        distinct = len(sharing) == 1 or sorted(families) == [False, True]
        if port != 0 and not (distinct and all(len(sharing) == 1 or e.host for e in sharing)):
            raise ConfigRefused("listeners", f"listeners: port {port} is used by more than one listener")


def _protocols(
    config: BrokerConfig, names: list[str], controller_names: list[str]
) -> dict[str, SecurityProtocol]:
    """The protocols of the listeners, and of the controller listeners of other nodes."""
    known = _protocol_map(config)
    explicit = "listener.security.protocol.map" in config.explicit
    found = {}
    for name in [*names, *controller_names]:
        protocol = known.get(name)
        named = name in names or "controller.listener.names" in config.explicit
        if protocol is None and name in controller_names and not (explicit and named):
            protocol = "PLAINTEXT"
        if protocol is None:
            text = f"listener.security.protocol.map: no protocol for listener {name}"
            raise ConfigRefused("listener.security.protocol.map", text)
        found[name] = SecurityProtocol[protocol]
    return found


def _protocol_map(config: BrokerConfig) -> dict[str, str]:
    setting = "listener.security.protocol.map"
    protocols = {}
    for entry in filter(None, (part.strip() for part in config.str(setting).split(","))):
        name, colon, protocol = (part.strip() for part in entry.partition(":"))
        if not colon or not name or protocol.upper() not in PROTOCOLS:
            allowed = ", ".join(PROTOCOLS)
            raise ConfigRefused(setting, f"{setting}: entry {entry!r}; allowed: NAME:PROTOCOL of {allowed}")
        protocols[name.upper()] = protocol.upper()
    return protocols


def _advertised(
    config: BrokerConfig, endpoints: list[Endpoint], controller_names: list[str], roles: frozenset[Role]
) -> dict[str, Endpoint]:
    if config.value("advertised.listeners") is None:
        return {}
    setting = "advertised.listeners"
    advertised = {endpoint.name: endpoint for endpoint in _endpoints(setting, config.list(setting))}
    known = {endpoint.name for endpoint in endpoints}
    for endpoint in advertised.values():
        if endpoint.name not in known:
            raise ConfigRefused(setting, f"{setting}: {endpoint.name} is not one of listeners")
        if endpoint.host in _EVERYWHERE[1:]:
            raise ConfigRefused(
                setting, f"{setting}: {endpoint.host} is not an address to which clients can connect"
            )
    missing = known - set(advertised) - set(controller_names)
    if Role.BROKER in roles and missing == known - set(controller_names):
        raise ConfigRefused(setting, f"{setting}: no listener for clients is advertised")
    return advertised


def _listener(
    endpoint: Endpoint, advertised: Endpoint | None, machine: str, protocol: SecurityProtocol
) -> Listener:
    shown = advertised or endpoint
    if advertised is None and endpoint.host in _EVERYWHERE[1:]:
        text = f"{endpoint.name} binds {endpoint.host}: set advertised.listeners to the address for clients"
        raise ConfigRefused("advertised.listeners", text)
    port = shown.port if shown.port > 0 else endpoint.port
    return Listener(
        endpoint.name, endpoint.host, endpoint.port, shown.host or machine, port, protocol=protocol
    )


def _controller(
    endpoint: Endpoint,
    advertised: Endpoint | None,
    machine: str,
    protocol: SecurityProtocol,
    voter: VoterAddress | None,
) -> Listener:
    """A controller listener. On every interface it is advertised with the address of this node as a voter."""
    if advertised is None and endpoint.host in _EVERYWHERE:
        host, port = (machine, endpoint.port) if voter is None else (voter.host, voter.port)
        advertised = Endpoint(endpoint.name, host, port)
    listener = _listener(endpoint, advertised, machine, protocol)
    return listener._replace(type=ListenerType.CONTROLLER)


def _inter_broker(config: BrokerConfig, clients: tuple[Listener, ...]) -> str:
    names = [listener.name for listener in clients]
    chosen = config.value("inter.broker.listener.name")
    protocol = config.str("security.inter.broker.protocol").upper()
    if chosen is None and "security.inter.broker.protocol" in config.explicit and protocol not in names:
        text = f"security.inter.broker.protocol={protocol}: no listener has this name; name one of {', '.join(names)}"
        raise ConfigRefused("security.inter.broker.protocol", f"{text} with inter.broker.listener.name")
    if chosen is None:
        return protocol if protocol in names else names[0]
    if "security.inter.broker.protocol" in config.explicit:
        text = "inter.broker.listener.name and security.inter.broker.protocol exclude each other"
        raise ConfigRefused("inter.broker.listener.name", text)
    name = str(chosen).upper()
    if name not in names:
        text = f"inter.broker.listener.name={chosen!r}; allowed: one of {', '.join(names)}"
        raise ConfigRefused("inter.broker.listener.name", text)
    return name
