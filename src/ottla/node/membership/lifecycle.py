"""The registration of this node as a broker: register, catch up, be unfenced, send heartbeats, stop.

`broker_state` decides what is sent and when; this module sends it through the controller channel, runs the timer, and
follows the metadata image. A node leads partitions only after its own registration has been applied here: the image
from before belongs to its earlier incarnation, whose leader epochs must not be used again.

Concurrency: the event loop only.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.promise import Promise
from ottla.base.rng import Random, random_uuid
from ottla.base.timer import TimerHandle
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import BrokerImage, MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.node.membership.broker_state import (
    NOT_REGISTERED,
    BrokerState,
    BrokerStateMachine,
    LifecycleSettings,
    Step,
)
from ottla.peer.connection import Timers
from ottla.storage.log_dir import LogDir
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from ottla.wire.messages.broker_registration import (
    Listener as RegisteredListener,
)

if TYPE_CHECKING:
    from ottla.broker.forwarding.controller_channel import ControllerChannel
    from ottla.broker.net.listeners import Listener
    from ottla.node.settings.config import NodeConfig

_log = structlog.get_logger(__name__)
_REPORT_S: Final = 10.0
T = TypeVar("T")


def _ignore(fenced: bool) -> None:
    """No part of the node follows the fencing."""


class BrokerLifecycle:
    """One broker process. `broker_epoch` is valid after the promise of `start` is kept."""

    def __init__(
        self,
        node_id: int,
        channel: ControllerChannel,
        publisher: MetadataPublisher,
        timers: Timers,
        rng: Random,
        settings: LifecycleSettings,
        on_fenced: Callable[[bool], None] = _ignore,
    ) -> None:
        self._node_id = node_id
        self._channel = channel
        self._publisher = publisher
        self._timers = timers
        self._rng = rng
        self._settings = settings
        self._on_fenced = on_fenced
        self._machine = BrokerStateMachine(settings)
        self.acknowledged_at: float | None = None
        """When the last heartbeat was sent that the controller acknowledged; None if it showed this broker fenced, in
        a controlled shutdown, and when this broker no longer follows the metadata."""
        self._metadata_failed = False
        self._timer: TimerHandle | None = None
        self._epoch = publisher.image.epoch
        self._registration = BrokerRegistrationRequest()
        self._registered: Promise[None] = Promise()
        self._refusal: tuple[str, float] = ("", 0.0)
        """Why the broker was not registered, and when that was logged."""
        self._unfenced: Promise[None] = Promise()
        self._stopped: Promise[None] = Promise()
        publisher.add_listener(self._image_changed)

    @property
    def broker_epoch(self) -> int:
        return self._machine.broker_epoch

    @property
    def state(self) -> BrokerState:
        return self._machine.state

    @property
    def fenced(self) -> bool:
        """Whether the applied metadata shows this broker fenced, or not registered by this process."""
        return self._machine.fenced

    def start(self, registration: BrokerRegistrationRequest) -> Promise[None]:
        """Register; the promise is kept when this node has applied its own registration.

        It fails with LocalError if no controller registers the broker in time.
        """
        self._registration = registration
        self._machine.start(self._timers.time())
        self._pump()
        return self._registered

    def ready(self) -> Promise[None]:
        """This node can serve clients; the promise is kept when the applied metadata shows it unfenced."""
        self._machine.ready(self._timers.time())
        self._pump()
        return self._unfenced

    def directory_failed(self, directory_id: uuid.UUID) -> None:
        """Report a failed log directory to the controller."""
        self._machine.directory_failed(self._timers.time(), directory_id)
        self._pump()

    def metadata_failed(self) -> None:
        """This node no longer follows the metadata: no acknowledgement shows that it keeps its leaderships."""
        self._metadata_failed = True
        self.acknowledged_at = None

    def controlled_shutdown(self) -> Promise[None]:
        """Move the leaderships to other brokers; the promise is kept when this broker may stop.

        The controller removes this broker from all ISRs at once, so that new leaders do not wait for it: from now on
        no acknowledgement shows that it keeps its leaderships.
        """
        self.acknowledged_at = None
        self._machine.begin_controlled_shutdown(self._timers.time())
        self._pump()
        return self._stopped

    def close(self) -> None:
        """Send nothing more."""
        self._machine.shut_down()
        self._pump()

    # The timer and the requests

    def _pump(self) -> None:
        """Send what is due, and set the timer for the next time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        machine, now = self._machine, self._timers.time()
        if machine.state is BrokerState.SHUTTING_DOWN:
            self._keep(self._stopped)
            return
        if machine.registration_expired(now):
            machine.shut_down()
            self._registered.fail(LocalError("no controller has registered this broker in time"))
            return
        step = machine.next_step(now)
        if step is Step.REGISTER:
            self._register()
        elif step is Step.HEARTBEAT:
            self._heartbeat()
        due = machine.next_due()
        if due is not None:
            self._timer = self._timers.call_later(max(0.0, due - now), self._pump)

    def _keep(self, promise: Promise[None]) -> None:
        if not promise.done:
            promise.keep(None)

    def _register(self) -> None:
        sent = self._channel.request(
            self._registration, BrokerRegistrationResponse, timeout_s=self._settings.request_timeout_s
        )
        sent.when_done(self._register_done)

    def _register_done(
        self, response: BrokerRegistrationResponse | None, error: BaseException | None
    ) -> None:
        now = self._timers.time()
        if response is not None and response.error_code == ErrorCode.NONE:
            epoch = response.broker_epoch
            _log.info("broker registered", broker=self._node_id, broker_epoch=epoch)
            self._machine.registered(now, epoch)
            self._publisher.when_applied(epoch, lambda: self._caught_up(epoch))
        else:
            self._report_refusal(str(error) if response is None else ErrorCode(response.error_code).name, now)
            self._machine.registration_failed(now)
        self._pump()

    def _report_refusal(self, reason: str, now: float) -> None:
        """Log why the broker is not registered, once in `_REPORT_S` for the same reason."""
        known, at = self._refusal
        if reason == known and now - at < _REPORT_S:
            return
        self._refusal = (reason, now)
        if reason == ErrorCode.DUPLICATE_BROKER_REGISTRATION.name:
            _log.warning(
                "the broker is not registered yet: another process has this node id, or its session has not ended",
                broker=self._node_id,
                reason=reason,
            )
        else:
            _log.info("the broker is not registered yet", broker=self._node_id, reason=reason)

    def _caught_up(self, epoch: int) -> None:
        """This node has applied its registration: a broker epoch is the offset of the registration."""
        self._machine.caught_up(self._timers.time(), epoch)
        self._follow(self._publisher.image)
        self._keep(self._registered)
        self._pump()

    def _heartbeat(self) -> None:
        machine = self._machine
        request = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=machine.broker_epoch,
            current_metadata_offset=self._publisher.applied_offset,
            want_fence=machine.want_fence,
            want_shut_down=machine.want_shut_down,
            offline_log_dirs=machine.offline_dirs,
        )
        sent_at = self._timers.time()
        sent = self._channel.request(
            request, BrokerHeartbeatResponse, timeout_s=self._settings.request_timeout_s
        )
        sent.when_done(lambda response, error: self._heartbeat_done(sent_at, response, error))

    def _heartbeat_done(
        self,
        sent_at: float,
        response: BrokerHeartbeatResponse | None,
        error: BaseException | None,
    ) -> None:
        now = self._timers.time()
        if response is not None and response.error_code == ErrorCode.NONE:
            may_lose_leaderships = self._machine.want_shut_down or self._metadata_failed
            self.acknowledged_at = None if response.is_fenced or may_lose_leaderships else sent_at
            self._machine.heartbeat_succeeded(
                now,
                is_caught_up=response.is_caught_up,
                is_fenced=response.is_fenced,
                should_shut_down=response.should_shut_down,
            )
        else:
            code = None if response is None else ErrorCode(response.error_code)
            _log.warning(
                "a heartbeat was not accepted",
                broker=self._node_id,
                reason=str(error) if code is None else code.name,
            )
            self._machine.heartbeat_failed(now, code)
            if self._machine.state is BrokerState.STARTING:
                self._new_incarnation()
        self._pump()

    def _new_incarnation(self) -> None:
        """Register again in this process. Its logs are complete, so the earlier registration ended cleanly."""
        self._registration.incarnation_id = random_uuid(self._rng)
        self._registration.previous_broker_epoch = self._machine.broker_epoch

    # The image

    def _image_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        changed = delta.changed_brokers
        if self._node_id in changed:
            self._follow(image)
            self._pump()
        if image.epoch != self._epoch:
            # A new active controller does not know yet that this broker runs.
            self._epoch = image.epoch
            self._report_offset()
        if any(self._is_stopping(image.brokers.get(each)) for each in changed):
            self._publisher.when_applied(image.offset, self._report_offset)

    def _is_stopping(self, broker: BrokerImage | None) -> bool:
        """Whether another broker waits until all brokers have applied that its leaderships have moved."""
        return (
            broker is not None
            and broker.broker_id != self._node_id
            and broker.in_controlled_shutdown
            and not broker.fenced
        )

    def _report_offset(self) -> None:
        self._machine.report_offset(self._timers.time())
        self._pump()

    def _follow(self, image: MetadataImage) -> None:
        broker = image.brokers.get(self._node_id)
        if broker is None or broker.epoch != self.broker_epoch:
            return
        was_fenced = self._machine.fenced
        self._machine.image_applied(self._timers.time(), fenced=broker.fenced)
        if broker.fenced != was_fenced:
            _log.info("broker fenced" if broker.fenced else "broker unfenced", broker=self._node_id)
            self._on_fenced(broker.fenced)
        if not broker.fenced:
            self._publisher.when_applied(image.offset, lambda: self._keep(self._unfenced))


def registration(
    config: NodeConfig,
    cluster_id: str,
    listeners: Sequence[Listener],
    log_dirs: Iterable[LogDir],
    rng: Random,
) -> BrokerRegistrationRequest:
    """The registration of a new incarnation of this node, with the log directories that are online."""
    online = [each for each in log_dirs if each.online]
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=cluster_id,
        incarnation_id=random_uuid(rng),
        listeners=[
            RegisteredListener(
                name=each.name,
                host=each.advertised_host,
                port=each.advertised_port,
                security_protocol=each.protocol,
            )
            for each in listeners
        ],
        features=[
            Feature(
                name=each.name,
                min_supported_version=each.min_version,
                max_supported_version=each.max_version,
            )
            for each in SUPPORTED_FEATURES
        ],
        rack=config.rack,
        log_dirs=sorted(each.directory_id for each in online),
        previous_broker_epoch=previous_broker_epoch([each.previous_broker_epoch for each in online]),
    )


def previous_broker_epoch(epochs: Sequence[int]) -> int:
    """The broker epoch in the clean-shutdown markers of all directories; NOT_REGISTERED if the stop was not clean.

    A directory without a marker, or with the marker of another epoch, makes the stop unclean: the broker may have
    lost records of the partitions in it.
    """
    distinct = set(epochs)
    return distinct.pop() if len(distinct) == 1 else NOT_REGISTERED
