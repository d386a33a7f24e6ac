"""The registration of this node as a controller (KIP-919).

A controller registers its listeners and features with the active controller, again whenever the applied metadata does
not contain the registration of this process. A registration that fails is repeated.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import structlog

from ottla.base.errors import ErrorCode
from ottla.base.rng import Random, random_uuid
from ottla.base.timer import TimerHandle
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.peer.connection import Timers
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)

if TYPE_CHECKING:
    from ottla.broker.forwarding.controller_channel import ControllerChannel

_log = structlog.get_logger(__name__)
_TIMEOUT_S: Final = 5.0
_RETRY_S: Final = 0.2


class ControllerRegistration:
    """Keeps the registration of one controller process in the metadata."""

    def __init__(
        self,
        request: ControllerRegistrationRequest,
        channel: ControllerChannel,
        publisher: MetadataPublisher,
        timers: Timers,
    ) -> None:
        self._request = request
        self._channel = channel
        self._publisher = publisher
        self._timers = timers
        self._timer: TimerHandle | None = None
        self._in_flight = False
        self._closed = False

    def start(self) -> None:
        self._publisher.add_listener(self._image_changed)
        self._check(self._publisher.image)

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _image_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._check(image)

    def _check(self, image: MetadataImage) -> None:
        registered = image.controllers.get(self._request.controller_id)
        if registered is not None and registered.incarnation_id == self._request.incarnation_id:
            return
        if self._in_flight or self._closed or self._timer is not None:
            return
        self._in_flight = True
        sent = self._channel.request(self._request, ControllerRegistrationResponse, timeout_s=_TIMEOUT_S)
        sent.when_done(self._done)

    def _done(self, response: ControllerRegistrationResponse | None, error: BaseException | None) -> None:
        self._in_flight = False
        if response is None or response.error_code:
            reason = str(error) if response is None else ErrorCode(response.error_code).name
            _log.info("the controller is not registered yet", reason=reason)
        if not self._closed:
            self._timer = self._timers.call_later(_RETRY_S, self._retry)

    def _retry(self) -> None:
        """Check again: the registration may have failed, or may not be applied here yet."""
        self._timer = None
        self._check(self._publisher.image)


def controller_registration(
    node_id: int, endpoints: Sequence[Endpoint], rng: Random
) -> ControllerRegistrationRequest:
    """The registration of a new incarnation of a controller."""
    return ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=random_uuid(rng),
        listeners=[
            Listener(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in endpoints
        ],
        features=[
            Feature(
                name=each.name,
                min_supported_version=each.min_version,
                max_supported_version=each.max_version,
            )
            for each in SUPPORTED_FEATURES
        ],
    )
