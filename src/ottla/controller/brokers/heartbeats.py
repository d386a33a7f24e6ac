"""Decisions about heartbeats: fencing, unfencing, controlled shutdown and directories that fail.

A heartbeat changes the metadata only if the state of the broker changes (`sessions.next_state`) or if it reports a
directory that was online. Fencing removes a broker from every ISR and leadership. Unfencing elects it where a
partition has no leader and it is eligible.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Final

from ottla.controller.brokers.sessions import BrokerState, Sessions, current_state, next_state
from ottla.controller.decision import Decision, SplittableDecision
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.metadata.image import DIRECTORY_UNASSIGNED, BrokerImage
from ottla.metadata.records import BrokerRegistrationChangeRecord
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.schema import Message

_FENCE: Final = 1
_UNFENCE: Final = -1
_IN_CONTROLLED_SHUTDOWN: Final = 1


def decide_heartbeat(
    view: ClusterView, sessions: Sessions, request: BrokerHeartbeatRequest, *, now: float, next_offset: int
) -> Decision[BrokerHeartbeatResponse]:
    """Renew the session of a broker and change its state."""
    broker = view.check_epoch(request.broker_id, request.broker_epoch)
    session = sessions.heartbeat(broker.broker_id, broker.epoch, now)
    session.metadata_offset = request.current_metadata_offset
    current = current_state(broker, session)
    is_caught_up = request.current_metadata_offset >= broker.epoch
    after = next_state(
        current,
        request,
        # A broker that is shutting down serves clients again only after another registration.
        may_be_unfenced=is_caught_up and not broker.in_controlled_shutdown,
        leads=view.index.leads(broker.broker_id),
        have_others_applied=lambda: sessions.have_applied(view.image, session.shutdown_offset or 0),
    )
    offline = [each for each in broker.log_dirs if each in request.offline_log_dirs]
    records = _records(view, broker, current, after, offline)
    if after is BrokerState.CONTROLLED_SHUTDOWN:
        if session.shutdown_offset is None:
            session.shutdown_offset = next_offset + len(records) - 1
    else:
        session.shutdown_offset = None
    is_fenced = after in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)
    if is_fenced and not broker.fenced:
        sessions.end(broker.broker_id)
    return SplittableDecision(
        records,
        BrokerHeartbeatResponse(
            is_caught_up=is_caught_up,
            is_fenced=is_fenced,
            should_shut_down=after is BrokerState.SHUTDOWN_NOW,
        ),
    )


def _records(
    view: ClusterView,
    broker: BrokerImage,
    current: BrokerState,
    after: BrokerState,
    offline: Sequence[uuid.UUID],
) -> list[Message]:
    if after is not current:
        if after is BrokerState.UNFENCED:
            return decide_unfence(view, broker, offline)
        if after is BrokerState.CONTROLLED_SHUTDOWN:
            return [*_enter_shutdown(broker), *view.remove_brokers((broker.broker_id,))]
        if not broker.fenced:
            return decide_fence(view, (broker.broker_id,)).records
    return decide_offline(view, broker, offline) if offline else []


def _enter_shutdown(broker: BrokerImage) -> list[Message]:
    if broker.in_controlled_shutdown:
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN,
        )
    ]


def decide_fence(view: ClusterView, brokers: Collection[int]) -> Decision[None]:
    """Fence brokers at one moment; those that are fenced already are skipped."""
    unfenced = [
        each
        for each in (view.image.brokers.get(broker_id) for broker_id in brokers)
        if each is not None and not each.fenced
    ]
    records = view.remove_brokers([each.broker_id for each in unfenced])
    records += [
        BrokerRegistrationChangeRecord(broker_id=each.broker_id, broker_epoch=each.epoch, fenced=_FENCE)
        for each in unfenced
    ]
    return SplittableDecision(records, None)


def decide_unfence(view: ClusterView, broker: BrokerImage, offline: Sequence[uuid.UUID]) -> list[Message]:
    """Unfence a broker, and elect it where a partition has no leader."""
    record = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=_UNFENCE
    )
    online = [each for each in broker.log_dirs if each not in offline]
    if offline and online:
        record.log_dirs = online
    return [record, *view.elect_returned(broker.broker_id, offline)]


def decide_offline(view: ClusterView, broker: BrokerImage, offline: Sequence[uuid.UUID]) -> list[Message]:
    """Remove the replicas in directories that failed from every ISR and leadership."""
    online = [each for each in broker.log_dirs if each not in offline]
    failed = []
    for key in view.index.replicas_of((broker.broker_id,)):
        directory_id = view.partition(key)[1].directory_of(broker.broker_id)
        if directory_id in offline or (not online and directory_id == DIRECTORY_UNASSIGNED):
            failed.append(key)
    records = view.remove_replicas(broker.broker_id, failed, offline)
    if online:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=online
            )
        )
    return records
