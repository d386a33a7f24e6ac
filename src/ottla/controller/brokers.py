"""Decisions about nodes: registration and unfencing of brokers.

A broker registers fenced. Its broker epoch is the offset of the registration, so it is higher than any earlier
one. When the broker has caught up it is unfenced and becomes the leader of its partitions again. Under a new
registration it always leads with a new leader epoch, so that state of its earlier process can be recognized.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision
from ottla.controller.port import NodeRegistration
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from ottla.metadata.records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.schema import Message

_NOW_UNFENCED = -1


def decide_register_broker(
    image: MetadataImage, request: BrokerRegistrationRequest, next_offset: int
) -> Decision[BrokerRegistrationResponse]:
    """Register a broker, fenced; the response has its broker epoch."""
    broker = image.brokers.get(request.broker_id)
    if broker is not None and broker.incarnation_id == request.incarnation_id:
        return Decision([], BrokerRegistrationResponse(broker_epoch=broker.epoch))
    record = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=next_offset,
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
        fenced=True,
        log_dirs=list(request.log_dirs),
    )
    return Decision([record], BrokerRegistrationResponse(broker_epoch=next_offset))


def decide_register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Register a controller. A registration replaces the earlier one of the same controller."""
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


def decide_heartbeat(
    image: MetadataImage, request: BrokerHeartbeatRequest
) -> Decision[BrokerHeartbeatResponse]:
    """Unfence a broker that has caught up with its registration."""
    is_caught_up = request.current_metadata_offset >= request.broker_epoch
    records: list[Message] = []
    fenced = image.brokers[request.broker_id].fenced if request.broker_id in image.brokers else True
    if is_caught_up and not request.want_fence and not request.want_shut_down:
        records = decide_unfence(image, request.broker_id, request.broker_epoch).records
        fenced = False
    return Decision(
        records,
        BrokerHeartbeatResponse(
            is_caught_up=is_caught_up, is_fenced=fenced, should_shut_down=request.want_shut_down
        ),
    )


def decide_register(image: MetadataImage, node: NodeRegistration, next_offset: int) -> Decision[int]:
    """Register the node as controller and as fenced broker; the response is its broker epoch."""
    broker = image.brokers.get(node.node_id)
    if broker is not None and broker.incarnation_id == node.incarnation_id:
        return Decision([], broker.epoch)
    controller = RegisterControllerRecord(
        controller_id=node.node_id,
        incarnation_id=node.incarnation_id,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in node.controller_endpoints
        ],
        features=[
            ControllerFeature(
                name=f.name, min_supported_version=f.min_version, max_supported_version=f.max_version
            )
            for f in SUPPORTED_FEATURES
        ],
    )
    epoch = next_offset + 1  # the second record is the broker's
    registered = RegisterBrokerRecord(
        broker_id=node.node_id,
        incarnation_id=node.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in node.endpoints
        ],
        features=[
            BrokerFeature(
                name=f.name, min_supported_version=f.min_version, max_supported_version=f.max_version
            )
            for f in SUPPORTED_FEATURES
        ],
        rack=node.rack,
        fenced=True,
        log_dirs=list(node.log_dirs),
    )
    return Decision([controller, registered], epoch)


def decide_unfence(image: MetadataImage, broker_id: int, broker_epoch: int) -> Decision[None]:
    """Unfence a broker; it leads every partition that it led, and those without a leader that it may lead."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {broker_id} is not registered")
    if broker.epoch != broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} is at epoch {broker.epoch}")
    if not broker.fenced:
        return Decision([], None)
    records: list[Message] = [
        BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_NOW_UNFENCED)
    ]
    for topic in image.topics.by_id.values():
        for index, partition in topic.partitions.items():
            change = _lead(partition, broker)
            if change is not None:
                change.topic_id, change.partition_id = topic.topic_id, index
                records.append(change)
    return Decision(records, None)


def _lead(partition: PartitionImage, broker: BrokerImage) -> PartitionChangeRecord | None:
    """The change by which a broker that was unfenced leads a partition; None if it must not lead it.

    A broker that registered without the log directory of the partition loses the leadership.
    """
    broker_id = broker.broker_id
    if partition.leader not in (NO_LEADER, broker_id) or broker_id not in partition.replicas:
        return None
    if not partition.is_online(broker_id, broker.log_dirs):
        return PartitionChangeRecord(leader=NO_LEADER) if partition.leader == broker_id else None
    if broker_id in partition.isr:
        return PartitionChangeRecord(leader=broker_id)
    last_known = partition.last_known_elr[:1]
    if partition.isr or broker_id not in (partition.eligible_leader_replicas or last_known):
        return None
    return PartitionChangeRecord(
        leader=broker_id, isr=[broker_id], eligible_leader_replicas=[], last_known_elr=[]
    )
