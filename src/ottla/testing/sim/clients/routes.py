"""Routes of a client to brokers: the leader of a partition, a coordinator, or any broker.

A client bootstraps from the brokers of its configuration, learns leaders from Metadata responses and coordinators from
FindCoordinator responses, and looks them up again after an error or without a response, as every Kafka client does.
What it knows may be out of date. Each route has its own connections: what one route waits for does not delay another.
"""

from __future__ import annotations

from typing import Final, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition, Uuid
from ottla.testing.sim.clients.process import Connection, NoResponse, Process
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)
Address = tuple[str, int]
GROUP, TXN = 0, 1
_METADATA_VERSION: Final = 12
_FIND_COORDINATOR_VERSION: Final = 4
_LOOKUP_ERRORS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class Leader:
    """The leader of a partition, with its epoch, the other replicas, and the id of the topic."""

    __slots__ = ("epoch", "node_id", "replicas", "topic_id")

    def __init__(self, node_id: int, epoch: int, replicas: list[int], topic_id: Uuid) -> None:
        self.node_id = node_id
        self.topic_id = topic_id
        self.epoch = epoch
        self.replicas = replicas


class Routes:
    """What one client process knows about the brokers of its cluster."""

    def __init__(self, process: Process, bootstrap: list[Address]) -> None:
        self.process = process
        self._bootstrap = bootstrap
        self.brokers: dict[int, Address] = {}
        self.leaders: dict[TopicPartition, Leader] = {}
        self._epochs: dict[tuple[Uuid, int], int] = {}
        """The greatest leader epoch seen: what a broker with older metadata reports about a leader is ignored."""
        self._coordinators: dict[tuple[int, str], Address] = {}
        self._lookups: dict[Address, Connection] = {}

    def forget(self) -> None:
        """Look up leaders and coordinators again before the next request: what is known may be out of date."""
        self.leaders.clear()
        self._coordinators.clear()

    def any_address(self) -> Address:
        """A broker that the client knows, at random."""
        known = sorted({*self._bootstrap, *self.brokers.values()})
        return known[0] if len(known) == 1 else self.process.rng.choice(known)

    async def leader(self, tp: TopicPartition) -> Leader:
        """The leader of a partition; raises NoResponse if it is not known."""
        if tp not in self.leaders:
            await self.refresh()
        found = self.leaders.get(tp)
        if found is None or found.node_id not in self.brokers:
            self.leaders.clear()
            await self.process.backoff()
            raise NoResponse(f"{tp} has no leader")
        return found

    async def refresh(self) -> None:
        """Request the metadata of all topics from some broker; raises NoResponse."""
        response = await self._lookup(MetadataRequest(topics=None), _METADATA_VERSION, MetadataResponse)
        self.brokers = {each.node_id: (each.host, each.port) for each in response.brokers}
        self.leaders = {}
        for topic in response.topics:
            for each in topic.partitions:
                tp = TopicPartition(topic.name or "", each.partition_index)
                key = (topic.topic_id, each.partition_index)
                if each.leader_id >= 0 and each.leader_epoch >= self._epochs.get(key, -1):
                    self._epochs[key] = each.leader_epoch
                    self.leaders[tp] = Leader(
                        each.leader_id, each.leader_epoch, list(each.replica_nodes), topic.topic_id
                    )

    async def coordinator(self, kind: int, key: str) -> Address:
        """The coordinator of a group or a transactional id; raises NoResponse if it is not known."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        response = await self._lookup(request, _FIND_COORDINATOR_VERSION, FindCoordinatorResponse)
        found = response.coordinators[0]
        if found.error_code:
            error = ErrorCode(found.error_code)
            kernel = self.process.kernel
            kernel.count(f"error {error.name}")
            kernel.check(
                error in _LOOKUP_ERRORS,
                "T2 clients only get error codes that they can handle",
                f"{self.process.name}, FindCoordinator: {error.name}",
            )
            await self.process.backoff()
            raise NoResponse(f"no coordinator: {error.name}")
        address = self._coordinators[kind, key] = (found.host, found.port)
        return address

    async def _lookup(self, request: Message, version: int, response: type[R]) -> R:
        address = self.any_address()
        connection = self._lookups.get(address)
        if connection is None:
            connection = self._lookups[address] = self.process.connection(address)
        return await connection.request(request, version, response)


class Route:
    """Sends requests to one kind of broker, one at a time. The base class sends them to any broker."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._connections: dict[Address, Connection] = {}

    async def find(self) -> Address:
        """The broker for the next request; raises NoResponse if it is not known."""
        return self._routes.any_address()

    async def request(
        self, request: Message, version: int, response: type[R], timeout_ms: int | None = None
    ) -> R:
        """Send a request and wait for its response; raises NoResponse."""
        address = await self.find()
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = self._routes.process.connection(address)
        try:
            return await connection.request(request, version, response, timeout_ms)
        except NoResponse:
            self._routes.forget()
            raise


class CoordinatorRoute(Route):
    """Sends requests to the coordinator of a group or of a transactional id."""

    def __init__(self, routes: Routes, kind: int, key: str) -> None:
        super().__init__(routes)
        self._kind = kind
        self._key = key

    async def find(self) -> Address:
        return await self._routes.coordinator(self._kind, self._key)


class LeaderRoute(Route):
    """Sends requests to the leader of the partition that `tp` names."""

    tp: TopicPartition

    def to(self, tp: TopicPartition) -> LeaderRoute:
        """The same route, for requests to the leader of a partition."""
        self.tp = tp
        return self

    async def find(self) -> Address:
        leader = await self._routes.leader(self.tp)
        return self._routes.brokers[leader.node_id]


class NodeRoute(Route):
    """Sends requests to one broker, by its id."""

    def __init__(self, routes: Routes, node_id: int) -> None:
        super().__init__(routes)
        self._node_id = node_id

    async def find(self) -> Address:
        address = self._routes.brokers.get(self._node_id)
        if address is None:
            raise NoResponse(f"broker {self._node_id} is not known")
        return address
