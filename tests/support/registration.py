"""Registers a broker at a controller, as a starting node does."""

from __future__ import annotations

import uuid

from ottla.controller.port import ControllerPort
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener


def registration(
    broker_id: int, incarnation: uuid.UUID, directory: uuid.UUID, port: int = 9092
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        incarnation_id=incarnation,
        listeners=[Listener(name="PLAINTEXT", host="127.0.0.1", port=port)],
        features=[
            Feature(name=f.name, min_supported_version=f.min_version, max_supported_version=f.max_version)
            for f in SUPPORTED_FEATURES
        ],
        rack=None,
        log_dirs=[directory],
    )


async def register(controller: ControllerPort, request: BrokerRegistrationRequest) -> int:
    """Register a broker, have it unfenced, and return its epoch."""
    registered = await controller.register_broker(request)
    assert registered.error_code == 0
    epoch = registered.broker_epoch
    heartbeat = BrokerHeartbeatRequest(
        broker_id=request.broker_id, broker_epoch=epoch, current_metadata_offset=epoch
    )
    response = await controller.broker_heartbeat(heartbeat)
    assert (response.error_code, response.is_fenced) == (0, False)
    return epoch
