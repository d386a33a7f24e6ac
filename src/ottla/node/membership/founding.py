"""How a node with empty directories becomes part of a cluster, over the controller listeners.

A voter requests the state of the other voters until `ottla.quorum.founding` decides; meanwhile it serves the same
requests to them. Two APIs are enough: DescribeCluster returns the cluster id and the voters, and a pre-vote of a
candidate without cluster id, epoch and records is granted by a voter that has none either. A node that is not a voter
requests the cluster id, and the voters if its settings do not name them.

Nothing is written here: the caller claims the directories for the cluster that is returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.ids import METADATA_TOPIC, ZERO_UUID, uuid_text
from ottla.base.promise import Promise
from ottla.base.rng import Random, random_uuid
from ottla.base.settled import settled
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers import load_all
from ottla.broker.net.listeners import ListenerType
from ottla.broker.registry import ListedApis, Route
from ottla.metadata.image import EMPTY_IMAGE
from ottla.node.settings.quorum_config import Role, VoterAddress
from ottla.peer.connection import Environment
from ottla.peer.errors import PeerError
from ottla.peer.peers import Peers
from ottla.peer.settings import PeerSettings
from ottla.quorum.founding import Found, Join, Refuse, VoterReport, Wait, decide
from ottla.quorum.quorum import ListenerAddress, QuorumStatus, ReplicaStatus
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.vote import (
    PartitionData,
    TopicData,
    VoteRequest,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from ottla.wire.schema import Message

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.node.settings.config import NodeConfig

_SERVED: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.VOTE,
    }
)
_CONTROLLERS: Final = 2
_POLL_S: Final = 0.05
_REQUEST_S: Final = 1.0
_NOTICE_S: Final = 10.0
_NEW_CLUSTER: Final = (
    "a new cluster begins with a controller whose settings name no other one, or with --force-founding"
)
_NO_CONTROLLER: Final = "start the controllers, or correct their addresses"
_NO_CLUSTER: Final = "a controller that belongs to no cluster yet"
_NOT_A_CONTROLLER: Final = "a listener for clients; the address of a controller listener is needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundingDependencies:
    """What the handlers of the founding APIs use."""

    cluster_id: str
    metadata: MetadataCache
    finalized_features: Callable[[], Mapping[str, int]]
    listed_apis: ListedApis
    authorization: Authorization
    quorum_requests: Callable[[Message], Promise[Message]]
    quorum_status: Callable[[], QuorumStatus]


class Members(NamedTuple):
    """The cluster as a node that is not a voter learns it."""

    cluster_id: str
    voters: tuple[VoterAddress, ...]


class _Silent:
    """Ignores the state of connections."""

    def on_connected(self, node_id: int) -> None:
        pass

    def on_disconnected(self, node_id: int, error: PeerError) -> None:
        pass


class Founding:
    """A voter without a metadata log. `cluster_id` is its cluster, if its settings or directories name one."""

    def __init__(
        self,
        config: NodeConfig,
        cluster_id: str | None,
        environment: Environment,
        rng: Random,
        log: FilteringBoundLogger,
        authorization: Authorization,
    ) -> None:
        self._authorization = authorization
        self._node_id = config.node_id
        self._config = config
        self._cluster_id = cluster_id
        self._voters = config.quorum.voters
        self._rng = rng
        self._log = log
        self._failures: dict[int, str] = {}
        """Why the voters that do not respond do not."""
        self._peers = _peers(config.node_id, environment)
        for voter in self._voters:
            if voter.node_id != config.node_id:
                self._peers.set_address(voter.node_id, voter.host, voter.port)

    def apis(self) -> tuple[list[Route], FoundingDependencies]:
        """What this node serves to the other voters meanwhile."""
        routes = [
            route
            for route in load_all()
            if ListenerType.CONTROLLER in route.listeners and route.api_key in _SERVED
        ]
        return routes, FoundingDependencies(
            cluster_id=self._cluster_id or "",
            metadata=MetadataCache(EMPTY_IMAGE),
            finalized_features=dict,
            listed_apis=ListedApis(routes, self._config.broker),
            authorization=self._authorization,
            quorum_requests=_grant_to_blank,
            quorum_status=self._describe,
        )

    async def run(self) -> Join:
        """Wait until this voter founds or joins a cluster; LocalError if the voters do not form one."""
        notices = _Notices(self._log, asyncio.get_running_loop())
        others = [voter.node_id for voter in self._voters if voter.node_id != self._node_id]
        voter_ids = [voter.node_id for voter in self._voters]
        try:
            while True:
                found = await asyncio.gather(*(self._report(node_id) for node_id in others))
                reports = {node_id: each for node_id, each in zip(others, found, strict=True) if each}
                decision = decide(
                    self._node_id,
                    self._cluster_id,
                    voter_ids,
                    reports,
                    forced=self._config.force_founding,
                )
                match decision:
                    case Join():
                        return decision
                    case Found():
                        return Join(uuid_text(random_uuid(self._rng)), recovering=False)
                    case Refuse(reason):
                        raise LocalError(f"{reason}; check controller.quorum.voters, log.dirs and CLUSTER_ID")
                    case Wait(reason):
                        notices.waiting(reason, "; ".join(self._failures.values()))
                await _pause()
        finally:
            self._peers.close()

    async def _report(self, node_id: int) -> VoterReport | None:
        """The state of a voter; None if it does not respond."""
        described = await _describe(self._peers, node_id)
        if isinstance(described, str):
            self._failures[node_id] = described
            return None
        self._failures.pop(node_id, None)
        self._check_voters(node_id, described)
        partition = PartitionData(replica_id=self._node_id, pre_vote=True)
        topics = [TopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
        probe = VoteRequest(voter_id=node_id, topics=topics)
        try:
            response = await settled(
                self._peers.request(node_id, probe, VoteResponse, timeout_s=_REQUEST_S, versions=range(2, 3))
            )
        except PeerError:
            return None
        granted = [each.vote_granted for topic in response.topics for each in topic.partitions]
        return VoterReport(described.cluster_id or None, blank=granted == [True])

    def _check_voters(self, node_id: int, described: DescribeClusterResponse) -> None:
        mine = sorted(voter.node_id for voter in self._voters)
        theirs = sorted(each.broker_id for each in described.brokers)
        if theirs != mine:
            raise LocalError(
                f"controller.quorum.voters: node {node_id} has the voters {theirs}, this node has {mine}; "
                "they must be the same on every node"
            )

    def _describe(self) -> QuorumStatus:
        names = [each.name for each in self._config.controller_listeners]
        voters = tuple(
            ReplicaStatus(
                voter.node_id,
                ZERO_UUID,
                -1,
                -1,
                -1,
                tuple(ListenerAddress(name, voter.host, voter.port) for name in names),
            )
            for voter in self._voters
        )
        return QuorumStatus(-1, 0, -1, voters)


class NoCluster(LocalError):
    """No controller of a cluster responds."""


async def find_members(
    config: NodeConfig,
    cluster_id: str | None,
    environment: Environment,
    log: FilteringBoundLogger,
    *,
    forced: bool = False,
) -> Members:
    """Wait until a controller reports the cluster id and the voters, for a node that is not a voter.

    With `forced` it does not wait: NoCluster if no controller of a cluster responds.
    """
    quorum = config.quorum
    addresses = [(voter.host, voter.port) for voter in quorum.voters] or list(quorum.remote_servers)
    peers = _peers(config.node_id, environment)
    for at, (host, port) in enumerate(addresses):
        peers.set_address(at, host, port)
    notices = _Notices(log, asyncio.get_running_loop())
    try:
        while True:
            found = await asyncio.gather(*(_describe(peers, at) for at in range(len(addresses))))
            described = [each for each in found if not isinstance(each, str) and each.cluster_id]
            if described:
                _check_cluster(cluster_id, [each.cluster_id for each in described])
                voters = quorum.voters or _voters(described)
                return Members(described[0].cluster_id, voters)
            servers = ", ".join(f"{host}:{port}" for host, port in addresses)
            if forced:
                raise NoCluster(f"no controller of a cluster responds at {servers}")
            hint = _NEW_CLUSTER if Role.CONTROLLER in config.roles else _NO_CONTROLLER
            notices.waiting(
                f"no controller of a cluster responds at {servers}; {hint}",
                "; ".join(each if isinstance(each, str) else _NO_CLUSTER for each in found),
            )
            await _pause()
    finally:
        peers.close()


async def _pause() -> None:
    """Wait before the next requests."""
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    timer = loop.call_later(_POLL_S, over.set_result, None)
    try:
        await over
    finally:
        timer.cancel()


def _check_cluster(cluster_id: str | None, reported: Sequence[str]) -> None:
    known = sorted({*reported, *([] if cluster_id is None else [cluster_id])})
    if len(known) > 1:
        own = "" if cluster_id is None else f"; this node belongs to cluster {cluster_id}"
        raise LocalError(f"the controllers belong to cluster {', '.join(sorted(set(reported)))}{own}")


def _voters(described: Iterable[DescribeClusterResponse]) -> tuple[VoterAddress, ...]:
    brokers = next(each.brokers for each in described)
    return tuple(VoterAddress(each.broker_id, each.host, each.port) for each in brokers)


async def _describe(peers: Peers, node_id: int) -> DescribeClusterResponse | str:
    """What a controller reports of its cluster, or why there is no such report."""
    request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
    try:
        response = await settled(
            peers.request(
                node_id, request, DescribeClusterResponse, timeout_s=_REQUEST_S, versions=range(1, 3)
            )
        )
    except PeerError as error:
        return str(error)
    return _NOT_A_CONTROLLER if response.error_code else response


def _grant_to_blank(message: Message) -> Promise[Message]:
    """The response of a blank voter: it grants a pre-vote to a candidate that is blank too, and nothing else."""
    granted = False
    if isinstance(message, VoteRequest) and message.cluster_id is None:
        granted = all(
            each.pre_vote and not (each.replica_epoch or each.last_offset or each.last_offset_epoch)
            for topic in message.topics
            for each in topic.partitions
        )
    partition = VoteResponsePartitionData(
        error_code=ErrorCode.NONE, leader_id=-1, leader_epoch=0, vote_granted=granted
    )
    topics = [VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    return Promise.kept(VoteResponse(topics=topics))


def _peers(node_id: int, environment: Environment) -> Peers:
    settings = PeerSettings(
        client_id=f"founding-{node_id}", reconnect_backoff_s=_POLL_S / 2, reconnect_backoff_max_s=_POLL_S
    )
    return Peers(settings, environment, _Silent())


class _Notices:
    """Logs why a node waits: when the reason changes, and again after a while."""

    def __init__(self, log: FilteringBoundLogger, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._loop = loop
        self._reason = ""
        self._since = self._noticed = loop.time()

    def waiting(self, reason: str, detail: str = "") -> None:
        now = self._loop.time()
        if now - self._since < 1 or (reason == self._reason and now - self._noticed < _NOTICE_S):
            return
        self._reason, self._noticed = reason, now
        self._log.info("waiting to join a cluster", reason=reason, **({"detail": detail} if detail else {}))
