"""Cluster under test, in this process: real nodes on simulated hosts, and the connections of the fuzzer to them.

The nodes are those of the simulation (`ottla.testing.sim`), with its disk, clock and network between the nodes. The
fuzzer's connections do not use the simulated network: `FuzzSocket` is the broker's end of a connection and delivers a
frame with the next event, so that a frame costs little more than its request. Virtual time advances by `TURN_US` for
each turn, whatever the machine does meanwhile.

Every exception that a node logs, every unexpected exception of its loop and every stop of a node is a `Failure`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar, cast

import structlog

from fuzz.frames.values import Known
from ottla.base.errors import InvariantViolation
from ottla.broker.net.listeners import ListenerType
from ottla.security.protocol import SecurityProtocol
from ottla.testing.sim.clients.admin import Admin
from ottla.testing.sim.kernel.loop import SimLoop
from ottla.testing.sim.node import SimNode
from ottla.testing.sim.run import Simulation
from ottla.wire import codec
from ottla.wire.frames import parse_response_header, request_frame
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)

TURN_US: Final = 3000
CLUSTER_SEED: Final = 1
_START_MS_MAX: Final = 60_000
_EXCHANGE_TURNS: Final = 1000
_PREPARE_ATTEMPTS: Final = 20
SETTINGS: Final = {"log.cleaner.enable": "true"}
USER, PASSWORD = "alice", "alice-secret"
SASL_SETTINGS: Final = {
    "listeners": "PLAINTEXT://node1:9092,SASL://node1:9094,CONTROLLER://node1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    ),
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
"""Of a single node: one listener without, and one with authentication; the user has rights until an ACL is created."""


class Failure(NamedTuple):
    """Something that no request may cause; `peer` is the connection that caused it, if that is known."""

    kind: str
    detail: str
    peer: str = ""


class Endpoint(NamedTuple):
    """One listener of one node."""

    node: SimNode
    port: int
    type: ListenerType
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT


class Stage(Enum):
    """How far a connection is authenticated when a frame is sent, on a listener with SASL."""

    NEW = "new"
    PLAIN = "PLAIN"
    SCRAM_256 = "SCRAM-SHA-256"
    SCRAM_512 = "SCRAM-SHA-512"
    AUTHENTICATED = "authenticated"

    @property
    def mechanism(self) -> str:
        """The mechanism that is chosen by the handshake."""
        return "PLAIN" if self is Stage.AUTHENTICATED else self.value


class _Name(NamedTuple):
    name: str


class _Peer(NamedTuple):
    host: _Name


class FuzzSocket:
    """The broker's end of a connection of the fuzzer; see `socket.socket` and `Pollable`."""

    def __init__(self, name: str, endpoint: Endpoint, on_read: Callable[[FuzzSocket], None]) -> None:
        self.name = name
        self.peer = _Peer(_Name(name))
        self.endpoint = endpoint
        self.frame = b""
        """The frame that was delivered last."""
        self.closed = False
        self.received_bytes = 0
        """Bytes of responses to the last frame."""
        self.response: list[bytes] | None = None
        """What the broker sends, if a list is set."""
        self._on_read = on_read
        self._data = memoryview(b"")
        self._ended = False
        self._loop: SimLoop | None = None

    # What the fuzzer does

    def deliver(self, frame: bytes) -> None:
        self.frame = frame
        self.received_bytes = 0
        self._data = memoryview(frame)
        self._changed()

    def hang_up(self) -> None:
        """Close the fuzzer's end."""
        self._ended = True
        self._changed()

    def _changed(self) -> None:
        if self._loop is not None:
            self._loop.notify(cast(Any, self))

    # What the broker does

    def recv_into(self, buffer: memoryview) -> int:
        self._on_read(self)
        data = self._data
        if not data:
            if self._ended:
                return 0
            raise BlockingIOError
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        self._data = data[size:]
        return size

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        self.received_bytes += len(data)
        if self.response is not None:
            self.response.append(bytes(data))
        return len(data)

    def sendmsg(self, buffers: list[bytes | memoryview], ancillary: object = (), flags: int = 0) -> int:
        return self.send(b"".join(buffers))

    def close(self) -> None:
        self.closed = True

    def setblocking(self, flag: bool) -> None:
        """Do nothing: this socket never blocks."""

    def setsockopt(self, *option: object) -> None:
        """Do nothing: this socket has no options."""

    def readable(self) -> bool:
        return len(self._data) > 0 or self._ended

    def writable(self) -> bool:
        return True

    def watch(self, loop: SimLoop) -> None:
        self._loop = loop


class FuzzLogger:
    """Logger of a node: a logged exception is a failure."""

    def __init__(self, report: Callable[[Failure], None]) -> None:
        self._report = report

    def info(self, event: str, **fields: object) -> None:
        """Ignore: refused requests are logged here."""

    debug = warning = info

    def log(self, level: int, event: str, **fields: object) -> None:
        """Ignore."""

    def error(self, event: str, **fields: Any) -> None:
        error = fields.get("exc_info")
        if isinstance(error, BaseException):
            text = "".join(traceback.format_exception(error))
            self._report(Failure("unhandled exception", f"{event}\n{text}", str(fields.get("peer", ""))))

    def exception(self, event: str, **fields: object) -> None:
        text = traceback.format_exc()
        self._report(Failure("unhandled exception", f"{event}\n{text}", str(fields.get("peer", ""))))


class Target:
    """A started cluster with topics, and the connections to it."""

    def __init__(self, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.failures: list[Failure] = []
        self.simulation = Simulation(CLUSTER_SEED)
        self.kernel = self.simulation.kernel
        chosen = {**SETTINGS, **(SASL_SETTINGS if brokers == 1 else {}), **(settings or {})}
        self.cluster = self.simulation.add_cluster("", chosen, brokers)
        self.known = Known()
        self.on_read: Callable[[FuzzSocket], None] = lambda _: None
        """Called when a node reads from a connection."""
        self._opened = 0
        for node in self.cluster.nodes:
            node.after_event = lambda: None
            node.make_logger = lambda *_: FuzzLogger(self.failures.append)
        self._start()
        self.endpoints = self.listening()

    def _start(self) -> None:
        """Start the nodes, and create the topics and internal topics."""
        cluster, ready = self.cluster, [False]
        structlog.configure(processors=[self._logged], cache_logger_on_first_use=False)
        cluster.topics = {"fuzz": 3, "keyed": 1}
        admin = Admin(cluster, "admin")
        admin.when_ready = lambda: ready.__setitem__(0, True)
        for node in cluster.nodes:
            node.start()
            if node.loop is not None:
                node.loop.on_error = self._unexpected
        admin.start()
        while not ready[0]:
            if self.kernel.violation is not None or self.kernel.now_ms > _START_MS_MAX:
                raise RuntimeError(f"the cluster does not start: {self.kernel.violation} {self.failures}")
            if not self.kernel.step():
                raise RuntimeError(f"the cluster does not start: {self.failures}")
        image = cluster.node.image
        if image is None:
            raise RuntimeError("the cluster has no metadata")
        known = self.known
        known.topic_ids = list(cluster.topic_ids.values())
        known.brokers = [node.node_id for node in cluster.nodes]
        known.broker_epochs = [-1, *(broker.epoch for broker in image.brokers.values())]
        known.epochs = sorted({0, 1, image.epoch, image.epoch + 1})
        known.directory_ids = [each for broker in image.brokers.values() for each in broker.log_dirs]
        known.cluster_id = str(getattr(cluster.node.node.broker, "_cluster_id", ""))

        self._prepare()

    def _prepare(self) -> None:
        """Create members of groups and producers, so that requests with their ids get beyond the first checks."""
        known = self.known
        protocol = JoinGroupRequestProtocol(
            name="range", metadata=b"\0\0\0\0\0\x01\0\x04fuzz\xff\xff\xff\xff"
        )
        brokers = [each for each in self.listening() if each.type is ListenerType.BROKER]
        for group in known.groups[:1]:
            join = JoinGroupRequest(
                group_id=group,
                session_timeout_ms=30_000,
                rebalance_timeout_ms=1000,
                protocol_type="consumer",
                protocols=[protocol],
            )
            joined = self._prepared(brokers, join, 3, JoinGroupResponse)
            known.members.append(joined.member_id)
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id=known.groups[1],
            member_id="member-1",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=known.topics,
            topic_partitions=[],
        )
        self._prepared(brokers, heartbeat, 1, ConsumerGroupHeartbeatResponse)
        for name in known.transactional_ids:
            producer = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            self._prepared(brokers, producer, 4, InitProducerIdResponse)

    def _prepared(self, brokers: list[Endpoint], request: Message, version: int, response: type[R]) -> R:
        """Send a request to each broker until one of them, the coordinator, accepts it."""
        for _ in range(_PREPARE_ATTEMPTS):
            for endpoint in brokers:
                found = self.exchange(request, version, response, endpoint)
                if not getattr(found, "error_code", 0):
                    return found
        raise RuntimeError(f"{request} is refused: {found}")

    def listening(self) -> list[Endpoint]:
        """The listeners of all nodes."""
        return [
            Endpoint(node, listener.port, listener.type, listener.protocol)
            for node in self.cluster.nodes
            for listener in (*node.config.listeners, *node.config.controller_listeners)
            if listener.port in node.host.listening
        ]

    # Connections

    def open(self, endpoint: Endpoint) -> FuzzSocket:
        """Connect to a listener; the node accepts with the next events."""
        self._opened += 1
        made = FuzzSocket(f"fuzz-{self._opened}", endpoint, self.on_read)
        listening = endpoint.node.host.listening.get(endpoint.port)
        if listening is None:
            made.closed = True
        else:
            listening.connected(cast(Any, made))
        return made

    def exchange(
        self,
        request: Message,
        version: int,
        response: type[R],
        endpoint: Endpoint | None = None,
        client_id: str = "fuzz",
    ) -> R:
        """Send a request on a new connection and return its response; RuntimeError if there is none in time."""
        socket = self.open(endpoint or self.endpoints[0])
        socket.response = []
        socket.deliver(request_frame(request, version, 1, client_id))
        for _ in range(_EXCHANGE_TURNS):
            self.turn()
            if socket.received_bytes:
                frame = b"".join(socket.response)[4:]
                start = parse_response_header(frame, request.SPEC.api_key, version)[1]
                return codec.decode(response, frame, version, start=start)
        raise RuntimeError(f"no response to {type(request).__name__}; {self.failures}")

    def authenticate(self, sockets: Sequence[FuzzSocket], stage: Stage) -> None:
        """Bring new connections to a stage of the authentication, all at the same time."""
        steps: list[tuple[Message, int]] = []
        if stage is not Stage.NEW:
            steps.append((SaslHandshakeRequest(mechanism=stage.mechanism), 1))
        if stage is Stage.AUTHENTICATED:
            steps.append((SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 2))
        refused: list[FuzzSocket] = []
        for request, version in steps:
            frame = request_frame(request, version, 1, "fuzz")
            for socket in sockets:
                socket.deliver(frame)
            refused = self._without_response(sockets)
        if refused:
            raise RuntimeError(f"{len(refused)} connections were not brought to stage {stage.name}")

    def _without_response(self, sockets: Sequence[FuzzSocket]) -> list[FuzzSocket]:
        """Wait for the responses of all connections; a node can be busy for some turns with what it received before."""
        for _ in range(_EXCHANGE_TURNS):
            self.turn()
            missing = [socket for socket in sockets if socket.closed or not socket.received_bytes]
            if not missing:
                break
        return missing

    def turn(self, duration_us: int = TURN_US) -> None:
        """Run all events of the next part of a second."""
        kernel = self.kernel
        end_us = kernel.now_us + duration_us
        queue = kernel._queue
        while queue and queue[0][0] <= end_us:
            kernel.step()
        kernel.now_us = end_us
        if kernel.violation is not None:
            self.failures.append(Failure("violation", str(kernel.violation)))
            kernel.violation = None
        for node in self.cluster.nodes:
            if node.node is None or node.node.failed.done():
                reason = "is not running" if node.node is None else node.node.failed.result()
                self.failures.append(Failure("crash", f"node {node.node_id}: {reason}"))

    def close(self) -> None:
        self.simulation.shut_down()

    # Failures

    def _logged(self, logger: object, method: str, event: Mapping[str, Any]) -> str:
        error = event.get("exc_info")
        if method == "exception" or error:
            text = "".join(traceback.format_exception(error)) if isinstance(error, BaseException) else ""
            self.failures.append(
                Failure("unhandled exception", f"{dict(event)}\n{text or traceback.format_exc()}")
            )
        raise structlog.DropEvent

    def _unexpected(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        kind = "invariant violated" if isinstance(error, InvariantViolation) else "unhandled exception"
        text = "".join(traceback.format_exception(error)) if error is not None else ""
        self.failures.append(Failure(kind, f"{context.get('message')}\n{text}"))
