"""Decisions about the registration of nodes: brokers, controllers, and the removal of a broker.

A broker registers fenced. Its broker epoch is the offset of the registration, so it is higher than any earlier one.
A new incarnation first loses everything that its predecessor had: it leaves every ISR and its leaderships move, in the
same batch and before the registration itself. So state of the earlier process is never used under the new epoch.

After a clean stop (`previous_broker_epoch` is the registered one) the broker stays eligible to lead (ELR). After an
unclean stop it stays eligible for topics whose records are synced before they count as replicated, because such a
replica still has every acknowledged record; for other topics it loses eligibility too, as in Kafka. See
`docs/decisions/0018-unclean-stops.md`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.brokers.sessions import Sessions
from ottla.controller.decision import Decision, SplittableDecision
from ottla.controller.partitions.cluster_view import ClusterView
from ottla.metadata.features import KRAFT_VERSION
from ottla.metadata.image import (
    DIRECTORY_IDS_MIN,
    METADATA_VERSION,
    BrokerImage,
    MetadataImage,
    TopicImage,
)
from ottla.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from ottla.security.protocol import SecurityProtocol
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.schema import Message

ANY_CLUSTER: Final = ""
"""A cluster id that is not checked, for a controller that does not have one yet."""


def decide_register_broker(
    view: ClusterView,
    sessions: Sessions,
    request: BrokerRegistrationRequest,
    *,
    cluster_id: str,
    now: float,
    next_offset: int,
    kraft_version: int,
) -> Decision[BrokerRegistrationResponse]:
    """Register a broker, fenced; the response has its broker epoch."""
    if cluster_id not in (ANY_CLUSTER, request.cluster_id):
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"this is cluster {cluster_id}, the broker belongs to {request.cluster_id}",
        )
    existing = view.image.brokers.get(request.broker_id)
    is_new = existing is None or existing.incarnation_id != request.incarnation_id
    if existing is not None and is_new:
        is_same_place = _is_same_place(existing, request)
        if sessions.is_alive(existing.broker_id, existing.epoch, now, is_same_place=is_same_place):
            raise ApiError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"another process is registered as broker {request.broker_id}; its session has not ended",
            )
    if request.is_migrating_zk_broker:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers with ZooKeeper cannot be registered")
    _check_directories(view.image, request)
    _check_protocols(each.security_protocol for each in request.listeners)
    _check_features(view.image, request, kraft_version)
    record = _registration(request)
    records: list[Message] = []
    if is_new:
        if existing is not None:
            records = _end_incarnation(view, existing, request)
            sessions.end(existing.broker_id)
        record.fenced = True
        record.broker_epoch = next_offset + len(records)
    elif existing is not None:
        record.fenced = existing.fenced
        record.in_controlled_shutdown = existing.in_controlled_shutdown
        record.broker_epoch = existing.epoch
        if _describes(record, existing):
            return Decision([], BrokerRegistrationResponse(broker_epoch=existing.epoch))
    records.append(record)
    return SplittableDecision(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch))


def _end_incarnation(
    view: ClusterView, existing: BrokerImage, request: BrokerRegistrationRequest
) -> list[Message]:
    broker_id = existing.broker_id
    is_clean = existing.epoch == request.previous_broker_epoch

    def keep_eligible(topic: TopicImage) -> bool:
        return is_clean or not view.image.elr_enabled or view.is_synced(topic, broker_id)

    return view.forget_broker(broker_id, keep_eligible=keep_eligible)


def _is_same_place(existing: BrokerImage, request: BrokerRegistrationRequest) -> bool:
    """Whether a process uses the directories and addresses of the registered one, which locks and binds them."""
    known = {(each.name, each.host, each.port) for each in existing.endpoints}
    return set(existing.log_dirs) == set(request.log_dirs) and known == {
        (each.name, each.host, each.port) for each in request.listeners
    }


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    if not directories:
        raise _invalid("the registration names no log directory")
    if any(each.int < DIRECTORY_IDS_MIN for each in directories):
        raise _invalid("the registration names a reserved directory id")
    if len(set(directories)) != len(directories):
        raise _invalid("the registration names a directory id twice")
    for broker in image.brokers.values():
        if broker.broker_id != request.broker_id and not set(broker.log_dirs).isdisjoint(directories):
            raise _invalid(f"broker {broker.broker_id} has registered one of the directories")


def _check_protocols(protocols: Iterable[int]) -> None:
    """Refuse a protocol that this release does not know: every later controller would have to connect with it."""
    for protocol in protocols:
        if protocol not in tuple(SecurityProtocol):
            raise _invalid(f"the registration has the unknown security protocol {protocol}")


def _check_features(image: MetadataImage, request: BrokerRegistrationRequest, kraft_version: int) -> None:
    """Refuse a broker that does not support a finalized feature level."""
    levels = {**image.features, KRAFT_VERSION: kraft_version}
    for feature in request.features:
        _check_range(feature, levels.get(feature.name, 0))
    absent = levels.keys() - {feature.name for feature in request.features}
    if METADATA_VERSION in absent:
        raise _invalid(f"the registration does not name the feature {METADATA_VERSION}")
    for name in absent:
        _check_range(Feature(name=name), levels[name])


def _check_range(feature: Feature, level: int) -> None:
    lowest, highest = feature.min_supported_version, feature.max_supported_version
    if not lowest <= level <= highest:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the cluster uses level {level} of {feature.name}; the broker supports {lowest} to {highest}",
        )


def _registration(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        rack=request.rack,
        log_dirs=list(request.log_dirs),
    )


def _describes(record: RegisterBrokerRecord, broker: BrokerImage) -> bool:
    """Whether a registration repeats what the image has."""
    return (
        record.rack == broker.rack
        and tuple(record.log_dirs) == broker.log_dirs
        and [(e.name, e.host, e.port, e.security_protocol) for e in record.end_points]
        == [(e.name, e.host, e.port, e.security_protocol) for e in broker.endpoints]
        and [(f.name, f.min_supported_version, f.max_supported_version) for f in record.features]
        == [(f.name, f.min_version, f.max_version) for f in broker.features]
    )


def decide_register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Register a controller. A registration replaces the earlier one of the same controller."""
    _check_protocols(each.security_protocol for each in request.listeners)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse(error_message=None))


def decide_unregister(
    view: ClusterView, sessions: Sessions, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    """Remove a broker from the cluster, and from every ISR and ELR."""
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    records = view.forget_broker(broker.broker_id, keep_eligible=lambda _: False)
    records.append(UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch))
    sessions.end(broker.broker_id)
    return SplittableDecision(records, UnregisterBrokerResponse())


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REGISTRATION, text)
