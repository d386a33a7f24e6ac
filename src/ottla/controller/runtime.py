"""Runs the decisions of a controller over the quorum: decide, append, respond when applied.

    decide on the controller's image -> replay into it -> append -> committed -> applied by the publisher -> respond

A decision is made when it is submitted, on an image that may contain records which are not committed yet; the
quorum writes the decisions of one iteration of the event loop together. Each decision is committed completely or not
at all, unless it is not atomic and larger than one batch. A response waits until this node has applied everything that
the controller's image contained when the decision was made. This holds for decisions without records too, so no client
sees state that can still be lost.

Failures:

- A refusal (`ApiError`) or a bug in a decision becomes an error response. Nothing is appended.
- When the node loses leadership, outstanding requests get NOT_CONTROLLER and the image is discarded. The next
  `leading` starts again from the committed image.
- When the metadata log fails, outstanding and later requests get KAFKA_STORAGE_ERROR. The process continues.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import structlog

from ottla.base.errors import ApiError, ErrorCode, LocalError, invariant
from ottla.controller.controller import Controller, Replayed
from ottla.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, SplittableDecision
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.metadata.record_codec import encode_record
from ottla.metadata.records import FeatureLevelRecord
from ottla.quorum.quorum import NotLeader, Quorum
from ottla.wire.schema import Message

R = TypeVar("R")

Decide = Callable[[MetadataImage], Decision[R]]
Respond = Callable[[R], None]
Refuse = Callable[[ErrorCode, str | None], None]

_log = structlog.get_logger(__name__)


class ControllerRuntime:
    """The leadership of one controller and its outstanding requests; a `LeadershipListener` of the quorum."""

    def __init__(
        self,
        controller: Controller,
        quorum: Quorum,
        publisher: MetadataPublisher,
        *,
        bootstrap: Sequence[Message],
        on_leading: Callable[[], None],
        on_resigned: Callable[[], None],
        on_active: Callable[[], None],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self._controller = controller
        self._quorum = quorum
        self._publisher = publisher
        self._bootstrap = bootstrap
        self._on_leading = on_leading
        self._on_resigned = on_resigned
        self._on_active = on_active
        self._on_fault = on_fault
        self._epoch: int | None = None
        self._fault: str | None = None
        self._outstanding: dict[int, Refuse] = {}
        self._submitted = 0

    @property
    def is_active(self) -> bool:
        """Whether this node leads the quorum and takes decisions."""
        return self._epoch is not None

    # Leadership

    def leading(self, epoch: int) -> None:
        """Start from the committed image; `on_active` is called when the first records are applied."""
        self._epoch = epoch
        self._controller.reset(self._publisher.image)
        self._on_leading()
        records = self._controller.decide_start(
            self._bootstrap, transaction_open=self._publisher.transaction_open
        )
        self.submit(lambda _: Decision(records, None), lambda _: self._on_active(), self._start_refused)

    def _start_refused(self, code: ErrorCode, message: str | None) -> None:
        """Another node may have been elected before the first records were applied: that is no fault."""
        if self._fault is None and code is not ErrorCode.NOT_CONTROLLER:
            self._on_fault(ApiError(code, message))

    def resigned(self, epoch: int) -> None:
        """Fail everything that is outstanding."""
        self._epoch = None
        self._on_resigned()
        _log.info("this node is no longer the active controller", epoch=epoch)
        outstanding, self._outstanding = self._outstanding, {}
        for refuse in outstanding.values():
            self._refuse(refuse)

    def failed(self, error: BaseException) -> None:
        """Refuse everything from now on."""
        self._fault = f"the metadata log has failed: {error}"
        _log.error("the controller stops", reason=str(error))
        self._on_fault(error)

    def _refuse(self, refuse: Refuse) -> None:
        if self._fault is not None:
            refuse(ErrorCode.KAFKA_STORAGE_ERROR, self._fault)
        else:
            refuse(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")

    # Decisions

    def submit(self, decide: Decide[R], respond: Respond[R], refuse: Refuse) -> None:
        """Decide and append at once; call `respond` or `refuse`, once, when the result is certain."""
        if self._epoch is None:
            self._refuse(refuse)
            return
        finish: Callable[[], None]
        try:
            response, batches, after = self._prepare(decide, self._epoch)
        except ApiError as error:
            finish = partial(refuse, error.code, error.message)
        except Exception:  # noqa: BLE001 - a bug in a decision fails that request only; nothing was appended
            _log.exception("a decision of the controller failed; nothing was changed")
            finish = partial(refuse, ErrorCode.UNKNOWN_SERVER_ERROR, None)
        else:
            if batches and not self._append(batches, after):
                self._refuse(refuse)
                return
            finish = partial(respond, response)
        self._finish_when_applied(finish, refuse)

    def _prepare(self, decide: Decide[R], epoch: int) -> tuple[R, list[list[bytes]], Replayed]:
        """Decide, encode and replay; the batches to append and the state after them. The controller is unchanged."""
        image = self._controller.image
        decision = decide(image)
        records, response = decision
        if not records:
            return response, [], Replayed(image, None)
        version = _version_at(image, records)
        values = [encode_record(record, version) for record in records]
        last_offset = self._quorum.log_end_offset + len(records) - 1
        size = RECORDS_PER_REQUEST_MAX if isinstance(decision, SplittableDecision) else len(values)
        batches = [values[at : at + size] for at in range(0, len(values), size)]
        return response, batches, self._controller.replayed(records, last_offset, epoch)

    def _append(self, batches: list[list[bytes]], after: Replayed) -> bool:
        """Append a decision; False if this node no longer leads the epoch."""
        last_offset = -1
        for values in batches:
            try:
                last_offset = self._quorum.append(after.image.epoch, values)
            except NotLeader:
                return False
        invariant(
            last_offset == after.image.offset, "the records were appended where the decision expected them"
        )
        self._controller.advance(after)
        return True

    def _finish_when_applied(self, finish: Callable[[], None], refuse: Refuse) -> None:
        self._submitted += 1
        number = self._submitted
        self._outstanding[number] = refuse

        def applied() -> None:
            if self._outstanding.pop(number, None) is not None:
                finish()

        self._publisher.when_applied(self._controller.image.offset, applied)


def _version_at(image: MetadataImage, records: Sequence[Message]) -> int:
    """The metadata.version to encode with: the finalized one, or the one that the records themselves begin with."""
    if image.metadata_version:
        return image.metadata_version
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    raise LocalError("the metadata has no metadata.version: the directory was never formatted")
