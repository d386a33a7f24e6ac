"""Base class of all simulated clients: a process, its routes to brokers, and the reaction to each error code.

A client passes the error codes that it can handle to `expect`. Any other error code is a violation: no Kafka client
could handle it.
"""

from __future__ import annotations

from typing import Final, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.testing.sim.clients.process import NoResponse, Process
from ottla.testing.sim.clients.routes import GROUP, TXN, CoordinatorRoute, LeaderRoute, Route, Routes
from ottla.testing.sim.cluster import Cluster
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)
E = ErrorCode

COORDINATOR_ERRORS: Final = frozenset(
    {E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}
)
BROKER_ERRORS: Final = frozenset(
    {
        E.KAFKA_STORAGE_ERROR,
        E.NOT_LEADER_OR_FOLLOWER,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.REQUEST_TIMED_OUT,
        E.NOT_ENOUGH_REPLICAS,
        E.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        E.LEADER_NOT_AVAILABLE,
        E.FENCED_LEADER_EPOCH,
        E.UNKNOWN_LEADER_EPOCH,
        E.OFFSET_NOT_AVAILABLE,
        E.BROKER_NOT_AVAILABLE,
        E.NOT_CONTROLLER,
    }
)
RETRIABLE: Final = COORDINATOR_ERRORS | BROKER_ERRORS
__all__ = ["BROKER_ERRORS", "COORDINATOR_ERRORS", "GROUP", "RETRIABLE", "TXN", "Client", "Fenced", "by_topic"]


class Fenced(Exception):
    """A newer incarnation has taken over the identity of this client, which ends."""


class Client:
    """One incarnation of a simulated client, on the host of that client; `name` is `<client id>.<incarnation>`."""

    def __init__(self, cluster: Cluster, client_id: str, incarnation: int = 0) -> None:
        self.cluster = cluster
        self.kernel = cluster.kernel
        self.client_id = client_id
        self.incarnation = incarnation
        self.name = f"{client_id}.{incarnation}"
        self.process = Process(cluster.network, cluster.host(client_id), self.name)
        self.rng = self.process.rng
        self.routes = Routes(self.process, cluster.bootstrap)
        self.connection = Route(self.routes)
        """To any broker; clients with a coordinator replace it."""

    def coordinator(self, kind: int, key: str) -> CoordinatorRoute:
        """A route to the coordinator of a group or of a transactional id."""
        return CoordinatorRoute(self.routes, kind, key)

    def leaders(self) -> LeaderRoute:
        """A route to the leaders of partitions."""
        return LeaderRoute(self.routes)

    def start(self) -> None:
        self.process.run(self._run)

    def kill(self) -> None:
        """End the process at once."""
        self.kernel.note(self.name, "is killed")
        self.process.kill()

    async def _run(self) -> None:
        try:
            await self.run()
        except Fenced:
            self.kernel.count("clients fenced")
            self.kernel.note(self.name, "is fenced")

    async def run(self) -> None:
        """Do the work of this client. Subclasses define it."""

    def next_incarnation(self) -> Client:
        """A new process of the same client."""
        return type(self)(self.cluster, self.client_id, self.incarnation + 1)

    def expect(self, code: int, *known: ErrorCode | frozenset[ErrorCode], doing: str) -> ErrorCode:
        """Return the error if this client can handle it; report a violation otherwise."""
        error = ErrorCode(code)
        for each in known:
            if error == each or (isinstance(each, frozenset) and error in each):
                if error is not ErrorCode.NONE:
                    self.kernel.note(self.name, f"{doing}: {error.name}")
                    self.kernel.count(f"error {error.name}")
                    if error in RETRIABLE:
                        self.routes.forget()
                return error
        if error is not ErrorCode.NONE:
            self.kernel.violated(
                "T2 clients only get error codes that they can handle", f"{self.name}, {doing}: {error.name}"
            )
        return error

    async def find_coordinator(self, kind: int, key: str) -> None:
        """Look up the coordinator until there is one, as every client does first."""
        while True:
            try:
                await self.routes.coordinator(kind, key)
            except NoResponse:
                await self.process.backoff()
            else:
                return

    async def retried(self, route: Route, request: Message, version: int, response: type[R]) -> R:
        """Send a request again until there is a response."""
        while True:
            try:
                return await route.request(request, version, response)
            except NoResponse:
                await self.process.backoff()


def by_topic(partitions: list[TopicPartition]) -> dict[str, list[int]]:
    """Group partitions by topic, in order."""
    found: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        found.setdefault(tp.topic, []).append(tp.partition)
    return found
