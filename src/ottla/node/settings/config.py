"""The settings of a node at its start, from a file, the environment and the command line.

Precedence: `server.properties` < `KAFKA_…` variables < `--data` < `--override`. `--port` replaces the default of
`listeners`. Without a file the entries of Kafka's quick-start file for one node are used, with listeners on the
loopback interface only.

Every setting of Kafka is accepted. Settings without effect are listed in one notice. An unknown name causes a
warning with the most similar known name. It is refused if it is similar to a setting that determines where the node
listens, where its data is stored or which cluster it belongs to: the node would start as another one. A bad value is
refused, and so is a setting for protection that this release does not have. The result is typed and immutable and
contains the notices; nothing is logged here.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec
from msgspec import Struct

from ottla.base.errors import LocalError
from ottla.broker.net.listeners import Listener
from ottla.config import BROKER_KEYS, BrokerConfig, ConfigRefused, Status, parse
from ottla.config.resolve import BrokerLayers, listener_setting
from ottla.config.static_rules import check_static
from ottla.metadata.records import UserScramCredentialRecord
from ottla.node.settings.authorizer_config import AUTHORIZER_SETTINGS, AuthorizerConfig, parse_authorizer
from ottla.node.settings.exposure import ALLOW_INSECURE, checked
from ottla.node.settings.listeners import parse_listeners
from ottla.node.settings.properties import parse_properties
from ottla.node.settings.quorum_config import QuorumConfig, Role, parse_quorum, parse_roles, parse_voters
from ottla.node.settings.sasl_config import SaslConfig, parse_sasl
from ottla.security.protocol import SecurityProtocol
from ottla.security.sasl.exchange import ALLOWED_URLS

METRICS_PORT = "ottla.metrics.port"
"""A setting of Ottla. The prefix keeps it apart from all settings that Kafka has or will have."""
PORT_MAX = 65_535
QUICK_START = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
}
_IDENTIFYING = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)
"""Settings that must not be misspelt: with their defaults the node would be another one."""
_CLUSTER_ID = re.compile(r"[A-Za-z0-9._=+/-]+")
"""Not only UUIDs: Kafka accepts every text."""
_SIMILAR = 0.75
_MISSPELT = 0.85

# Variables of Kafka's start scripts and of clients, which are not broker settings.
_FOREIGN_VARIABLES = frozenset(
    f"KAFKA_{name}"
    for name in [
        "BOOTSTRAP_SERVERS",
        "BROKERS",
        "DEBUG",
        "GC_LOG_OPTS",
        "HEAP_OPTS",
        "HOME",
        "JMX_HOSTNAME",
        "JMX_OPTS",
        "JMX_PORT",
        "JVM_PERFORMANCE_OPTS",
        "LOG4J_LOGGERS",
        "LOG4J_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "MODE",
        "OPTS",
        "TOOLS_LOG4J_LOGLEVEL",
        "URI",
        "VERSION",
    ]
)
# Settings that are effective with the prefix of a listener.
_PER_LISTENER = ("sasl.", "ssl.", "connections.max.reauth.ms")
_PLUGIN_PREFIXES = (
    "rsm.config.",
    "rlmm.config.",
    "remote.log.",
    "metrics.context.",
    "config.providers.",
    ALLOWED_URLS,
)


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"


class Notice(Struct, frozen=True):
    """A message for the operator, to be logged."""

    level: Level
    text: str


class NodeConfig(Struct, frozen=True):
    """The settings of a node at its start."""

    broker: BrokerConfig
    node_id: int
    roles: frozenset[Role]
    quorum: QuorumConfig
    cluster_id: str | None
    listeners: tuple[Listener, ...]
    controller_listeners: tuple[Listener, ...]
    inter_broker_listener: str
    controller_listener: str
    """The name of the controllers' listener to which this node connects."""
    controller_protocol: SecurityProtocol
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    rack: str | None
    notices: tuple[Notice, ...]
    metrics_port: int | None = None
    """The port of the endpoint for metrics; None without one."""
    authorizer: AuthorizerConfig | None = None
    """The settings of the authorizer; None without one."""
    force_founding: bool = False
    """Found a cluster although voters are not reachable; see `ottla.quorum.founding`."""
    users: tuple[UserScramCredentialRecord, ...] = ()
    """SCRAM users that are stored when the cluster is founded."""
    sasl: SaslConfig = SaslConfig()


def load(
    path: str | None,
    env: Mapping[str, str],
    overrides: Sequence[str] = (),
    data: str | None = None,
    *,
    port: int | None = None,
    force_founding: bool = False,
    users: tuple[UserScramCredentialRecord, ...] = (),
) -> NodeConfig:
    """Read all sources and combine them; raises LocalError with a text that names what to change."""
    file = None if path is None else parse_properties(_read(path))
    config = assemble(file, env, overrides, data, port=port, machine=socket.gethostname())
    return msgspec.structs.replace(config, force_founding=force_founding, users=users)


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a broker does not load pathlib otherwise
            raw = file.read()
    except OSError as error:
        raise LocalError(f"cannot read {path}: {error.strerror}") from error
    if b"\0" in raw:
        raise LocalError(f"cannot read {path}: it is not a text file")  # it would have no known setting
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # the encoding in which Java reads these files


def assemble(
    file: Mapping[str, str] | None,
    env: Mapping[str, str],
    overrides: Sequence[str] = (),
    data: str | None = None,
    *,
    port: int | None = None,
    machine: str = "localhost",
) -> NodeConfig:
    """Combine parsed sources; `file` is None without a file."""
    written = {**(file or {}), **from_environment(env)}
    if data is not None:
        written["log.dirs"] = data
    written.update(_overrides(overrides))
    if port is not None:
        if "listeners" in written:
            raise LocalError(
                f"--port {port}: listeners={written['listeners']} is set as well; use one of them"
            )
        written["listeners"] = f"PLAINTEXT://127.0.0.1:{port}"
    metrics_port = _take_metrics_port(written)
    insecure_allowed = _take_boolean(written, ALLOW_INSECURE)
    notices = [*_review(written)]
    explicit = _with_node_id(written if file is not None else {**QUICK_START, **written})
    broker = BrokerConfig(explicit)
    check_static(broker)
    node_id = broker.int("node.id")
    roles = parse_roles(broker)
    voter = next((each for each in parse_voters(broker) if each.node_id == node_id), None)
    listeners = parse_listeners(broker, machine, roles, voter)
    quorum = parse_quorum(broker, node_id, roles, listeners.controllers)
    sasl = parse_sasl(broker, listeners, quorum, roles)
    layers = BrokerLayers(broker)
    opened = [*listeners.clients, *(listeners.controllers if quorum.named else ())]
    reviewed = [checked(each, layers, machine, insecure_allowed=insecure_allowed) for each in opened]
    notices += [Notice(Level.WARNING, text) for _, text in reviewed if text is not None]
    bound = {each.name: each for each, _ in reviewed}
    directories = tuple(broker.list("log.dirs" if broker.value("log.dirs") is not None else "log.dir"))
    metadata_directory = broker.value("metadata.log.dir")
    rack = broker.value("broker.rack")
    return NodeConfig(
        broker=broker,
        node_id=node_id,
        roles=roles,
        quorum=quorum,
        cluster_id=_cluster_id(env),
        listeners=tuple(bound[each.name] for each in listeners.clients),
        controller_listeners=tuple(bound.get(each.name, each) for each in listeners.controllers),
        inter_broker_listener=listeners.inter_broker,
        controller_listener=listeners.controller_name,
        controller_protocol=listeners.controller_protocol,
        log_dirs=directories,
        metadata_log_dir=directories[0] if metadata_directory is None else str(metadata_directory),
        rack=None if rack is None else str(rack),
        notices=tuple(notices),
        metrics_port=metrics_port,
        authorizer=parse_authorizer(broker, listeners.clients, listeners.controllers),
        sasl=sasl,
    )


def _take_boolean(written: dict[str, str], name: str) -> bool:
    """Remove a setting of Ottla that is true or false, and return its value; false without it."""
    text = written.pop(name, "false").strip().lower()
    if text not in ("true", "false"):
        raise ConfigRefused(name, f"{name}={text!r}; allowed: true, false")
    return text == "true"


def _take_metrics_port(written: dict[str, str]) -> int | None:
    """Remove the setting of the endpoint for metrics, which Kafka does not have, and return its value."""
    text = written.pop(METRICS_PORT, None)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) > PORT_MAX:
        raise ConfigRefused(
            METRICS_PORT, f"{METRICS_PORT}={text!r}; allowed: 0 to {PORT_MAX}, 0 for a free port"
        )
    return int(text)


def from_environment(env: Mapping[str, str]) -> dict[str, str]:
    """`KAFKA_A_B__C___D` is `a.b_c-d`, as in Kafka's container image."""
    found = {}
    for variable, value in sorted(env.items()):
        if variable.startswith("KAFKA_") and variable not in _FOREIGN_VARIABLES:
            name = variable.removeprefix("KAFKA_").lower()
            name = name.replace("_", ".").replace("...", "-").replace("..", "_")
            found[name] = value
    return found


def _overrides(entries: Sequence[str]) -> dict[str, str]:
    found = {}
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise LocalError(f"--override {entry!r}; allowed: --override key=value")
        found[name.strip()] = value.strip()
    return found


def _review(written: Mapping[str, str]) -> list[Notice]:
    """Notices about unknown settings and settings without effect; refuses protection that does not exist."""
    notices, idle = [], []
    for name, text in written.items():
        base = listener_setting(name) or name
        key = BROKER_KEYS.get(base)
        if key is not None and key.protective and not _is_default(base, text):
            raise ConfigRefused(
                name,
                f"{name} is set, but this release does not implement it; remove it to start without this protection",
            )
        if key is None:
            if not name.startswith(_PLUGIN_PREFIXES) and name not in AUTHORIZER_SETTINGS:
                notices.append(Notice(Level.WARNING, _unknown(name)))
        elif key.status is Status.ACCEPTED or (base != name and not base.startswith(_PER_LISTENER)):
            idle.append(name)
        elif base != name:
            parse(key, text)
    if idle:
        notices.append(
            Notice(Level.INFO, "settings without effect in this release: " + ", ".join(sorted(idle)))
        )
    return notices


def _is_default(name: str, text: str) -> bool:
    key = BROKER_KEYS[name]
    return parse(key, text) == (None if key.default is None else parse(key, key.default))


def _unknown(name: str) -> str:
    """The text for an unknown name; ConfigRefused if it is a misspelt name of `_IDENTIFYING`."""
    import difflib

    near = difflib.get_close_matches(name, BROKER_KEYS, n=1, cutoff=_SIMILAR)
    text = f"unknown setting {name!r}" + (f"; did you mean {near[0]}?" if near else "")
    if near and near[0] in _IDENTIFYING and difflib.SequenceMatcher(None, near[0], name).ratio() >= _MISSPELT:
        raise ConfigRefused(name, text)
    return text


def _with_node_id(explicit: Mapping[str, str]) -> dict[str, str]:
    """Set `node.id` and its old name `broker.id` to the same value if one of them is missing."""
    settings = dict(explicit)
    node, broker = settings.get("node.id"), settings.get("broker.id")
    if node is not None and broker is not None and node.strip() != broker.strip():
        raise ConfigRefused("broker.id", f"broker.id={broker} and node.id={node} differ; remove one of them")
    either = node if node is not None else broker
    if either is not None:
        settings["node.id"] = settings["broker.id"] = either
    return settings


def _cluster_id(env: Mapping[str, str]) -> str | None:
    text = env.get("CLUSTER_ID")
    if not text:
        return None
    if not _CLUSTER_ID.fullmatch(text):
        raise ConfigRefused(
            "CLUSTER_ID", f"CLUSTER_ID={text!r}; allowed: ASCII letters, digits and . _ - = + /"
        )
    return text
