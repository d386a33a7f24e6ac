"""Checker of the metadata: its quorum, and the images that the nodes build from the committed log.

Rules, after every event of a node:

- K1 a quorum epoch has one leader;
- K2 the epoch of a node never decreases; after a restart it is not below an epoch in which the node has led;
- K6 K7 nodes at the same offset have the same image, and the image of a node does not go back;
- in the newest image: a fenced broker, so also one that has just registered again, is in no ISR; the ISR and the
  eligible leader replicas are replicas and disjoint; a leader is in the ISR; a new leader has a new leader epoch;
  leader epochs, partition epochs and broker epochs never decrease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ottla.base.ids import TopicPartition, Uuid
from ottla.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionImage
from ottla.metadata.snapshot import digest
from ottla.testing.sim.kernel.events import Kernel


class QuorumView(Protocol):
    """The quorum, as one node sees it."""

    @property
    def leader_id(self) -> int: ...

    @property
    def epoch(self) -> int: ...


class MetadataChecker:
    """Compares the quorum and the images of all nodes of a cluster."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self.newest: MetadataImage = EMPTY_IMAGE
        """The committed metadata: the image with the greatest offset that a node has applied."""
        self.committed_isr: dict[tuple[Uuid, int, int], tuple[int, ...]] = {}
        """The ISR in the newest image, by topic id, partition and leader epoch."""
        self.on_partition: Callable[[TopicPartition, PartitionImage], None] = lambda *_: None
        """Called for each partition that has changed in the newest image."""
        self.on_joined: Callable[[int, Uuid, int], None] = lambda *_: None
        """Called for each replica that joins an ISR in the newest image: node, topic id and partition."""
        self._digests: dict[int, str] = {}
        self._images: dict[int, MetadataImage] = {}
        self._leaders: dict[int, int] = {}
        self._quorum: dict[int, tuple[int, int]] = {}
        self._durable_epochs: dict[int, int] = {}

    @property
    def quorum_leader(self) -> int:
        """The leader of the newest quorum epoch that has one; -1 if there is none."""
        return self._leaders[max(self._leaders)] if self._leaders else -1

    def started(self, node_id: int) -> None:
        """A node was started: it reads its log again. Epochs in which it has led are durable on its disk."""
        self._images.pop(node_id, None)
        self._quorum[node_id] = (self._durable_epochs.get(node_id, 0), -1)

    def forgot(self, node_id: int) -> None:
        """A node lost the disk with its quorum state."""
        self._durable_epochs.pop(node_id, None)

    def check_quorum(self, node_id: int, quorum: QuorumView) -> None:
        """Check the quorum as a node sees it, after an event of the node."""
        view = (quorum.epoch, quorum.leader_id)
        known = self._quorum.get(node_id)
        if view == known:
            return
        self._quorum[node_id] = view
        epoch, leader_id = view
        self._kernel.check(
            known is None or epoch >= known[0],
            "K2 the quorum epoch of a node never decreases",
            f"node {node_id}: {known} to {view}",
        )
        if leader_id == node_id:
            self._durable_epochs[node_id] = epoch
            if epoch not in self._leaders:
                self._kernel.count("quorum elections")
        if leader_id >= 0:
            leader = self._leaders.setdefault(epoch, leader_id)
            self._kernel.check(
                leader == leader_id,
                "K1 a quorum epoch has one leader",
                f"epoch {epoch}: {leader}, and {leader_id} according to node {node_id}",
            )

    def check_image(self, node_id: int, image: MetadataImage) -> None:
        """Check the image of a node, after an event of the node."""
        before = self._images.get(node_id, EMPTY_IMAGE)
        if image is before:
            return
        self._images[node_id] = image
        self._kernel.check(
            image.offset >= before.offset,
            "K7 the image of a node does not go back",
            f"node {node_id}: offset {before.offset} to {image.offset}",
        )
        found = digest(image)
        known = self._digests.setdefault(image.offset, found)
        self._kernel.check(
            found == known,
            "K6 images of the same offset are equal",
            f"node {node_id} at offset {image.offset}",
        )
        if image.offset > self.newest.offset:
            self._check_newest(image)
            self.newest = image

    def _check_newest(self, image: MetadataImage) -> None:
        before = self.newest
        for broker_id, broker in image.brokers.items():
            old = before.brokers.get(broker_id)
            self._kernel.check(
                old is None or broker.epoch >= old.epoch,
                "K7 broker epochs never decrease",
                f"broker {broker_id}: {old.epoch if old else None} to {broker.epoch}",
            )
        fenced = {broker_id for broker_id, broker in image.brokers.items() if broker.fenced}
        for topic in image.topics.by_id.values() if fenced and image.elr_enabled else ():
            for index, partition in topic.partitions.items():
                self._kernel.check(
                    fenced.isdisjoint(partition.isr),
                    "R7 a fenced broker is in no ISR",
                    f"{topic.name}-{index}: {partition}, fenced {fenced}",
                )
        for topic_id, topic in image.topics.by_id.items():
            known = before.topics.by_id.get(topic_id)
            if known is topic:
                continue
            for index, partition in topic.partitions.items():
                tp = TopicPartition(topic.name, index)
                self.committed_isr[topic_id, index, partition.leader_epoch] = partition.isr
                self.on_partition(tp, partition)
                earlier = self._partition(before, topic_id, index)
                self._check_partition(tp, partition, earlier)
                for node_id in partition.isr:
                    if earlier is not None and node_id not in earlier.isr:
                        self.on_joined(node_id, topic_id, index)

    @staticmethod
    def _partition(image: MetadataImage, topic_id: Uuid, index: int) -> PartitionImage | None:
        topic = image.topics.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(index)

    def _check_partition(
        self, tp: TopicPartition, partition: PartitionImage, before: PartitionImage | None
    ) -> None:
        isr, elr = set(partition.isr), set(partition.eligible_leader_replicas)
        detail = f"{tp}: {before} to {partition}"
        check = self._kernel.check
        check(
            isr | elr <= set(partition.replicas) and not isr & elr,
            "R4 the ISR and the eligible leader replicas are replicas, and disjoint",
            detail,
        )
        check(partition.leader in isr or partition.leader == NO_LEADER, "R4 the leader is in the ISR", detail)
        if before is None:
            return
        check(
            partition.leader_epoch >= before.leader_epoch
            and partition.partition_epoch >= before.partition_epoch,
            "R6 the epochs of a partition never decrease",
            detail,
        )
        check(
            partition.leader == before.leader or partition.leader_epoch > before.leader_epoch,
            "R6 a new leader has a new leader epoch",
            detail,
        )
