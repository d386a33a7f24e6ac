"""What a follower requests of the leader so that its own entry among the voters is correct, as in Kafka (KIP-853).

- A voter whose addresses in the log are not its own sends UpdateRaftVoter.
- With `controller.quorum.auto.join.enable` a controller that is no voter sends AddRaftVoter. If a voter has its node id
  and another directory, which is gone, it sends RemoveRaftVoter for that one first.

The leader decides; a request that it refuses is repeated later. Concurrency: the event loop.
"""

from __future__ import annotations

from typing import Any

import structlog

from ottla.base.errors import ErrorCode
from ottla.quorum.quorum import ListenerAddress
from ottla.quorum.raft.core import Core
from ottla.quorum.raft.roles import Role
from ottla.quorum.raft.voters import Voter
from ottla.quorum.runtime.ports import QuorumTransport, Timer, Timers
from ottla.quorum.runtime.settings import RaftSettings
from ottla.wire.messages import add_raft_voter, remove_raft_voter, update_raft_voter
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.schema import Message

_log = structlog.get_logger(__name__)


def kraft_versions(response: ApiVersionsResponse) -> tuple[int, int]:
    """The versions of kraft.version that a node supports; only 0 if it does not know the feature."""
    for feature in response.supported_features:
        if feature.name == "kraft.version":
            return feature.min_version, feature.max_version
    return 0, 0


def due_request(
    core: Core, cluster_id: str, listeners: tuple[ListenerAddress, ...], timeout_ms: int, *, auto_join: bool
) -> tuple[Message, type[Message]] | None:
    """The request to send to the leader now, and the class of its response; None if nothing has to change."""
    if core.role is not Role.FOLLOWER or not core.history.kraft_version or not listeners:
        return None
    node_id, directory_id = core.local
    entry = core.voters.get(node_id)
    if entry is not None and entry.has(core.local):
        own = Voter(core.local, listeners)
        if own == entry:
            return None
        update = update_raft_voter.UpdateRaftVoterRequest(
            cluster_id=cluster_id,
            current_leader_epoch=core.epoch,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[
                update_raft_voter.Listener(name=at.name, host=at.host, port=at.port) for at in listeners
            ],
            kraft_version_feature=update_raft_voter.KRaftVersionFeature(
                min_supported_version=own.kraft_versions[0], max_supported_version=own.kraft_versions[1]
            ),
        )
        return update, update_raft_voter.UpdateRaftVoterResponse
    if not auto_join:
        return None
    if entry is not None:
        removal = remove_raft_voter.RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=entry.key.directory_id
        )
        return removal, remove_raft_voter.RemoveRaftVoterResponse
    addition = add_raft_voter.AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=timeout_ms,
        voter_id=node_id,
        voter_directory_id=directory_id,
        listeners=[add_raft_voter.Listener(name=at.name, host=at.host, port=at.port) for at in listeners],
        ack_when_committed=False,
    )
    return addition, add_raft_voter.AddRaftVoterResponse


class VoterUpkeep:
    """Sends due requests to the leader, one at a time, with the fetch timeout as a pause."""

    def __init__(
        self, core: Core, settings: RaftSettings, transport: QuorumTransport, timers: Timers
    ) -> None:
        self._core = core
        self._settings = settings
        self._transport = transport
        self._timers = timers
        self._timer: Timer | None = None
        self._closed = False

    def start(self) -> None:
        """Check for the first time after the pause, when the log has probably been fetched."""
        self._timer = self._timers.call_later(self._settings.timeouts.fetch_ms / 1000, self._check)

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        settings = self._settings
        timeout_ms = round(settings.request_timeout_s * 1000)
        due = due_request(
            self._core, settings.cluster_id, settings.listeners, timeout_ms, auto_join=settings.auto_join
        )
        if due is None:
            self.start()
            return
        message, response = due
        # The leader responds within the timeout in the request.
        wait_s = 2 * settings.request_timeout_s
        promise = self._transport.request(
            self._core.leader_id, message, response, timeout_s=wait_s, versions=None
        )
        promise.when_done(self._responded)

    def _responded(self, response: Any, error: BaseException | None) -> None:
        if error is not None or response.error_code:
            reason = str(error) if error is not None else ErrorCode(response.error_code).name
            _log.info("the leader does not change the voters yet", reason=reason)
        if not self._closed:
            self.start()
