"""Sends proposed ISR changes to the controller: one AlterPartition request at a time for the whole broker.

Proposals that arrive while a request is under way are sent together by the next one. A partition has one proposal at a
time (`LeaderState.pending`), which is dropped here when the metadata has resolved it.

Results:

- applied: the partition waits for the image that contains the change;
- INELIGIBLE_REPLICA, OPERATION_NOT_ATTEMPTED: the proposal was not applied and never will be: it is withdrawn;
- other errors of a partition (FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, …): the partition waits for an image. If
  none resolves the proposal, it is sent again after a second: a new controller may not have what the old one had;
- errors of the request, a timeout included: the result is unknown; the request is sent again after a back-off.

Pure: sending and timers are ports. Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from ottla.base.errors import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.promise import Promise
from ottla.replication.leader import IsrProposal
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)

BACKOFF_S: Final = 0.05
UNRESOLVED_S: Final = 1.0
_WITHDRAWN: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
_AWAITING_IMAGE: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class Proposer(Protocol):
    """A partition that proposes changes of its ISR."""

    topic_id: Uuid
    index: int

    def wants(self, proposal: IsrProposal) -> bool:
        """Whether the proposal is still pending."""
        ...

    def withdraw(self, proposal: IsrProposal) -> None:
        """The controller has refused the proposal, or there was nothing to change."""
        ...


Send = Callable[[AlterPartitionRequest], Promise[AlterPartitionResponse]]
Later = Callable[[float, Callable[[], None]], object]


class IsrRequests:
    """The proposed ISR changes of one broker."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], send: Send, later: Later) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._send = send
        self._later = later
        self._queue: dict[tuple[Uuid, int], tuple[Proposer, IsrProposal]] = {}
        self._sent: dict[tuple[Uuid, int], tuple[Proposer, IsrProposal]] | None = None
        self._backing_off = False

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration."""
        return self._broker_epoch()

    def submit(self, partition: Proposer, proposal: IsrProposal) -> None:
        """Send a proposal, with the next request if one is under way."""
        self._queue[partition.topic_id, partition.index] = (partition, proposal)
        self._send_queue()

    def _send_queue(self) -> None:
        if self._sent is not None or self._backing_off:
            return
        wanted = {key: one for key, one in self._queue.items() if one[0].wants(one[1])}
        self._queue = {}
        if wanted:
            self._sent = wanted
            self._send(self._request(wanted)).when_done(self._done)

    def _request(self, wanted: dict[tuple[Uuid, int], tuple[Proposer, IsrProposal]]) -> AlterPartitionRequest:
        topics: dict[Uuid, TopicData] = {}
        for (topic_id, index), (_, proposal) in wanted.items():
            topic = topics.setdefault(topic_id, TopicData(topic_id=topic_id, partitions=[]))
            topic.partitions.append(
                PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=broker_id, broker_epoch=epoch)
                        for broker_id, epoch in proposal.isr
                    ],
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=list(topics.values())
        )

    def _done(self, response: AlterPartitionResponse | None, error: BaseException | None) -> None:
        sent, self._sent = self._sent or {}, None
        if error is not None or response is None or response.error_code:
            for key, entry in sent.items():
                self._queue.setdefault(key, entry)
            self._back_off()
            return
        for topic in response.topics:
            for result in topic.partitions:
                key = (topic.topic_id, result.partition_index)
                if key in sent:
                    self._resolve(*sent.pop(key), result.error_code, result.partition_epoch)
        for key, entry in sent.items():  # the response does not contain them
            self._queue.setdefault(key, entry)
        if sent:
            self._back_off()
        else:
            self._send_queue()

    def _resolve(
        self, partition: Proposer, proposal: IsrProposal, error_code: int, partition_epoch: int
    ) -> None:
        unchanged = not error_code and partition_epoch == proposal.partition_epoch
        if error_code in _WITHDRAWN or unchanged:
            partition.withdraw(proposal)
            return
        delay = UNRESOLVED_S if error_code in _AWAITING_IMAGE else BACKOFF_S
        self._later(delay, lambda: self._submit_again(partition, proposal))

    def _submit_again(self, partition: Proposer, proposal: IsrProposal) -> None:
        if partition.wants(proposal):
            self._queue.setdefault((partition.topic_id, partition.index), (partition, proposal))
            self._send_queue()

    def _back_off(self) -> None:
        self._backing_off = True
        self._later(BACKOFF_S, self._end_back_off)

    def _end_back_off(self) -> None:
        self._backing_off = False
        self._send_queue()
