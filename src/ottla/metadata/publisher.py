"""Applies the committed metadata log on this node: committed batches become images, listeners are notified.

Every node has one, with or without a controller. For each delivery of the quorum:

    decode -> replay into a delta -> next image -> listeners -> snapshot if due
                                                   listeners have followed -> `when_applied` callbacks

A listener that needs time, because it creates logs for instance, returns a promise.

The image moves only here, so it never contains a record that could still be lost. A listener that raises is
logged; the other listeners are still called, because the records are committed. Records that cannot be decoded
or replayed, or that finalize a feature level this release does not support, raise: the quorum then stops this
replica (`CommitListener`), and the image stays at the last state that was applied.

Concurrency: the event loop only.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import structlog

from ottla.base.errors import LocalError
from ottla.base.promise import Promise
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.features import KRAFT_VERSION, unsupported
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.record_codec import decode_record
from ottla.metadata.snapshot import image_values
from ottla.metadata.transactions import TransactionFilter
from ottla.quorum.quorum import CommittedBatch, CommittedSnapshot

Listener = Callable[[MetadataDelta, MetadataImage], Promise[None] | None]

_log = structlog.get_logger(__name__)


class SnapshotTarget(Protocol):
    """The part of the quorum that the publisher uses."""

    @property
    def kraft_version(self) -> int: ...

    @property
    def snapshot_due(self) -> bool: ...

    def write_snapshot(self, last_offset: int, epoch: int, values: Iterable[bytes]) -> None: ...


class MetadataPublisher:
    """The committed image of this node and those that follow it."""

    def __init__(self, quorum: SnapshotTarget) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.caught_up = False
        """Whether the image has reached a committed offset since the start; a snapshot alone may be older."""
        self._quorum = quorum
        self._transactions = TransactionFilter()
        self._listeners: list[Listener] = []
        self._applied_offset = EMPTY_IMAGE.offset
        self._published: deque[tuple[int, list[Promise[None]]]] = deque()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._registered = 0

    @property
    def applied_offset(self) -> int:
        """The offset up to which every listener has followed the image."""
        return self._applied_offset

    @property
    def transaction_open(self) -> bool:
        """True after the begin of a metadata transaction whose end is not committed."""
        return self._transactions.open

    def finalized_features(self) -> Mapping[str, int]:
        """Finalized feature levels, kraft.version included unless it is 0; their epoch is `image.offset`."""
        level = self._quorum.kraft_version
        return {**self.image.features, KRAFT_VERSION: level} if level else self.image.features

    def add_listener(self, listener: Listener) -> None:
        """Call `listener(delta, image)` for each new image, in the order in which listeners were added."""
        self._listeners.append(listener)

    def when_applied(self, offset: int, callback: Callable[[], None]) -> None:
        """Call `callback` once the image contains `offset` and every listener has followed it.

        Callbacks are called in the order of their offsets; at once if the offset is applied already.
        """
        if self._applied_offset >= offset:
            callback()
        else:
            self._registered += 1
            heapq.heappush(self._waiting, (offset, self._registered, callback))

    # Deliveries of the quorum

    def load_snapshot(self, snapshot: CommittedSnapshot) -> None:
        """Replace the image by a snapshot; listeners get the difference to the old one."""
        self._transactions = TransactionFilter()
        delta = MetadataDelta(EMPTY_IMAGE)
        self._replay(delta, snapshot.values)
        image = delta.apply(snapshot.last_offset, snapshot.epoch)
        self._publish(MetadataDelta.between(self.image, image), image)

    def committed(self, batches: Sequence[CommittedBatch]) -> None:
        """Advance the image by committed batches, as one change."""
        delta = MetadataDelta(self.image)
        for batch in batches:
            self._replay(delta, batch.values)
        last = batches[-1]
        self.caught_up = True
        self._publish(delta, delta.apply(last.last_offset, last.epoch))
        if self._quorum.snapshot_due and not self._transactions.open:
            self._quorum.write_snapshot(last.last_offset, last.epoch, image_values(self.image))

    def _replay(self, delta: MetadataDelta, values: Iterable[bytes]) -> None:
        for value in values:
            for record in self._transactions.admit(decode_record(value)):
                delta.replay(record)

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.changed_features and (beyond := unsupported(image)):
            raise LocalError(
                f"the cluster uses features this release does not support: {', '.join(beyond)}; "
                "start a newer release"
            )
        self.image = image
        promises = []
        for listener in self._listeners:
            try:
                promise = listener(delta, image)
                if promise is not None:
                    promises.append(promise)
            except Exception:  # noqa: BLE001 - the records are committed, whether or not a listener can follow
                _log.exception("a metadata listener failed on committed records", offset=image.offset)
        self._published.append((image.offset, promises))
        for promise in promises:
            promise.when_done(lambda _, error: self._followed(error))
        self._call_back()

    def _followed(self, error: BaseException | None) -> None:
        if error is not None:
            _log.error("a metadata listener failed on committed records", exc_info=error)
        self._call_back()

    def _call_back(self) -> None:
        while self._published and all(promise.done for promise in self._published[0][1]):
            self._applied_offset = self._published.popleft()[0]
            while self._waiting and self._waiting[0][0] <= self._applied_offset:
                heapq.heappop(self._waiting)[2]()
