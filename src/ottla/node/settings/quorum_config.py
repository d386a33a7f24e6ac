"""The settings of the metadata quorum: the roles of this node, the voters and the bootstrap servers.

The rules between them are Kafka's. A node founds a quorum with itself as the only voter (`alone`) if it has the
controller role and the settings name no other node. `controller.quorum.voters` lists static voters, and must do so on
every node. A controller with `controller.quorum.bootstrap.servers` only follows the quorum of these servers, and is a
voter when it has been added to the voters in the log (KIP-853).
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from ottla.broker.net.listeners import Listener
from ottla.config import BrokerConfig, ConfigRefused

_AUTO_JOIN = "controller.quorum.auto.join.enable"
_PORT_MAX = 65535
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - recognized, not bound here


class Role(StrEnum):
    """An entry of `process.roles`."""

    BROKER = "broker"
    CONTROLLER = "controller"


class VoterAddress(NamedTuple):
    """One entry of `controller.quorum.voters`."""

    node_id: int
    host: str
    port: int


class QuorumConfig(Struct, frozen=True):
    """The members of the quorum, as the settings of this node name them."""

    voters: tuple[VoterAddress, ...] = ()
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    alone: bool = True
    """The settings name no other node."""
    remote_servers: tuple[tuple[str, int], ...] = ()
    """The bootstrap servers without this node."""

    @property
    def named(self) -> bool:
        """Whether the settings name any member. Other nodes and tools may then connect to the controller listener."""
        return bool(self.voters or self.bootstrap_servers)


def parse_roles(config: BrokerConfig) -> frozenset[Role]:
    """Parse `process.roles`."""
    roles = config.list("process.roles")
    allowed = [role.value for role in Role]
    if not roles or len(set(roles)) != len(roles) or not set(roles) <= set(allowed):
        text = f"process.roles={','.join(roles)}; allowed: broker, controller, or both"
        raise ConfigRefused("process.roles", text)
    return frozenset(Role(role) for role in roles)


def parse_voters(config: BrokerConfig) -> tuple[VoterAddress, ...]:
    """Parse `controller.quorum.voters`."""
    voters = []
    for entry in config.list("controller.quorum.voters"):
        node_id, _, address = entry.partition("@")
        voters.append(VoterAddress(int(node_id), *_address("controller.quorum.voters", address)))
    ids = [voter.node_id for voter in voters]
    if len(set(ids)) != len(ids):
        text = "controller.quorum.voters: two voters have the same node id"
        raise ConfigRefused("controller.quorum.voters", text)
    return tuple(voters)


def parse_quorum(
    config: BrokerConfig, node_id: int, roles: frozenset[Role], controllers: tuple[Listener, ...]
) -> QuorumConfig:
    """Parse and check the settings of the quorum; `controllers` are the controller listeners of this node."""
    voters = parse_voters(config)
    setting = "controller.quorum.bootstrap.servers"
    servers = tuple(_address(setting, each) for each in config.list(setting))
    is_voter = any(voter.node_id == node_id for voter in voters)
    names = ", ".join(str(voter.node_id) for voter in voters)
    if Role.CONTROLLER not in roles and config.bool(_AUTO_JOIN):
        raise ConfigRefused(_AUTO_JOIN, f"{_AUTO_JOIN}=true needs the controller role in process.roles")
    if Role.CONTROLLER in roles:
        if voters and not is_voter:
            text = (
                f"controller.quorum.voters names nodes {names}, but not this node {node_id}, which has the controller "
                "role; add it, or remove controller from process.roles"
            )
            raise ConfigRefused("controller.quorum.voters", text)
        if roles == {Role.CONTROLLER} and not voters and not servers:
            text = (
                "process.roles=controller needs controller.quorum.voters or controller.quorum.bootstrap.servers with "
                "the addresses of the controllers"
            )
            raise ConfigRefused("process.roles", text)
        alone = len(voters) == 1 or (not voters and _only_this_node(servers, controllers))
        if not controllers and not alone:
            text = (
                "controller.listener.names: none of them is one of listeners, but a node with the controller "
                "role needs one"
            )
            raise ConfigRefused("controller.listener.names", text)
        remote = tuple(each for each in servers if not _is_this_node(each, controllers))
        return QuorumConfig(voters, servers, alone, remote)
    if not voters and not servers:
        text = (
            "process.roles=broker needs controller.quorum.voters or controller.quorum.bootstrap.servers with the "
            "addresses of the controllers"
        )
        raise ConfigRefused("process.roles", text)
    if is_voter:
        text = (
            f"controller.quorum.voters names this node {node_id}, which has only the broker role; "
            "add controller to process.roles, or remove it from the voters"
        )
        raise ConfigRefused("controller.quorum.voters", text)
    return QuorumConfig(voters, servers, alone=False, remote_servers=servers)


def _only_this_node(servers: tuple[tuple[str, int], ...], controllers: tuple[Listener, ...]) -> bool:
    """Whether the bootstrap servers are at most this node itself."""
    if len(servers) > 1:
        return False
    return not servers or not controllers or _is_this_node(servers[0], controllers)


def _is_this_node(server: tuple[str, int], controllers: tuple[Listener, ...]) -> bool:
    """Whether this is the address of one of these controller listeners of this node."""
    host, port = server
    hosts = {"localhost", "127.0.0.1", "::1"}
    for listener in controllers:
        own = {listener.host, listener.advertised_host}
        is_local = listener.host in _EVERYWHERE or listener.host in hosts
        if port in (listener.port, listener.advertised_port) and (
            host in own or (host in hosts and is_local)
        ):
            return True
    return False


def _address(setting: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if int(port) > _PORT_MAX:
        raise ConfigRefused(setting, f"{setting}: port {port} of {host}; allowed: 0 to {_PORT_MAX}")
    return host.strip("[]"), int(port)
