"""An idempotent producer with several batches in flight, as librdkafka and the Java client implement it.

The batches of a partition are sent in order, up to five at a time, over one connection to the leader. A batch whose
request fails is sent again, with the same sequence numbers, before any batch that was not sent yet. If the leader
changes, or a connection is lost, the producer waits for the requests in flight before it continues elsewhere.

A producer that does this never gets OUT_OF_ORDER_SEQUENCE_NUMBER: `expect` reports it as a violation. Clients recover
from it by a new epoch, in which they send again what may already be in the log (librdkafka issue 4953).
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.testing.sim.clients.client import RETRIABLE, Client
from ottla.testing.sim.clients.process import Connection, NoResponse
from ottla.testing.sim.clients.producer_session import ProducerSession
from ottla.wire.messages.produce import ProduceRequest, ProduceResponse

E = ErrorCode
IN_FLIGHT_MAX: Final = 5
_QUEUED_MAX: Final = 8
_STAYS: Final = frozenset({E.NOT_ENOUGH_REPLICAS, E.NOT_ENOUGH_REPLICAS_AFTER_APPEND, E.REQUEST_TIMED_OUT})
"""Errors after which a client does not look up the leader."""


class _Batch:
    __slots__ = ("in_flight", "not_before_ms", "number", "request", "was_sent")

    def __init__(self, request: ProduceRequest, number: int) -> None:
        self.request = request
        self.number = number
        self.in_flight = False
        self.was_sent = False
        self.not_before_ms = 0.0


class PipelinedSession:
    """One producer id; `retries_singly`: a retry waits for all requests before it, as in the Java client."""

    def __init__(self, client: Client, *, retries_singly: bool) -> None:
        self._client = client
        self._ids = ProducerSession(client)
        self._retries_singly = retries_singly
        self._queues: dict[TopicPartition, _Queue] = {}

    async def init(self) -> None:
        """Get a producer id."""
        await self._ids.init()

    async def produce(self, tp: TopicPartition, values: list[str]) -> None:
        """Send records, when there is room for another batch of the partition."""
        queue = self._queues.get(tp)
        if queue is None:
            queue = self._queues[tp] = _Queue(self._client, self._ids, tp, self._retries_singly)
        while len(queue) >= _QUEUED_MAX:
            await self._client.process.sleep(20)
        queue.add(values)

    async def flush(self) -> None:
        """Wait until all records are acknowledged."""
        while any(len(queue) for queue in self._queues.values()):
            await self._client.process.sleep(20)


class _Queue:
    """The batches of one partition that are not acknowledged, in order."""

    def __init__(
        self, client: Client, ids: ProducerSession, tp: TopicPartition, retries_singly: bool
    ) -> None:
        self._client = client
        self._ids = ids
        self._tp = tp
        self._retries_singly = retries_singly
        self._batches: dict[_Batch, list[str]] = {}
        self._added = 0
        self._sequence = 0
        self._connections: dict[tuple[str, int], Connection] = {}
        self._connection: Connection | None = None
        """To the leader; None while requests to the last leader are in flight, or a leader is looked up."""
        client.process.loop.create_task(self._serve())

    def __len__(self) -> int:
        return len(self._batches)

    def add(self, values: list[str]) -> None:
        client, timeout_ms = self._client, self._client.rng.choice((300, 1000, 3000))
        client.cluster.txns.sent(None, f"{client.client_id}/{client.incarnation}", values)
        request = self._ids.request(self._tp, values, self._sequence, timeout_ms=timeout_ms)
        self._batches[_Batch(request, self._added)] = values
        self._added += 1
        self._sequence += len(values)

    async def _serve(self) -> None:
        """Send what can be sent, until the process ends."""
        process = self._client.process
        while True:
            in_flight = sum(batch.in_flight for batch in self._batches)
            if self._connection is None and self._batches and not in_flight:
                await self._connect()
            batch = self._next()
            if batch is not None and self._connection is not None and in_flight < IN_FLIGHT_MAX:
                batch.in_flight = batch.was_sent = True
                process.loop.create_task(self._send(batch, self._connection))
            else:
                await process.sleep(process.rng.uniform(1, 10))

    async def _connect(self) -> None:
        client = self._client
        try:
            leader = await client.routes.leader(self._tp)
        except NoResponse:
            client.routes.forget()
            await client.process.backoff()
            return
        address = client.routes.brokers[leader.node_id]
        if address not in self._connections:
            self._connections[address] = client.process.connection(address)
        self._connection = self._connections[address]

    def _next(self) -> _Batch | None:
        """The first batch that is not in flight, if it may be sent now.

        A leader remembers the last five batches of a producer: the oldest that is not acknowledged must be among them.
        """
        for number, batch in enumerate(self._batches):
            if not batch.in_flight:
                waits = self._client.kernel.now_ms < batch.not_before_ms
                waits = waits or batch.number - next(iter(self._batches)).number >= IN_FLIGHT_MAX
                waits = waits or (self._retries_singly and batch.was_sent and number > 0)
                return None if waits else batch
        return None

    async def _send(self, batch: _Batch, connection: Connection) -> None:
        client, kernel = self._client, self._client.kernel
        version = self._ids.produce_version
        try:
            response = await connection.request(batch.request, version, ProduceResponse, backs_off=False)
        except NoResponse:
            client.routes.forget()
            self._connection = None
        else:
            result = response.responses[0].partition_responses[0]
            error = client.expect(result.error_code, E.NONE, RETRIABLE, doing="Produce")
            if error is E.NONE:
                values = self._batches.pop(batch)
                client.cluster.txns.acknowledged(None, self._tp, result.base_offset, values)
                kernel.count("records acknowledged", len(values))
                kernel.count("records acknowledged of pipelined producers", len(values))
            elif error not in _STAYS:
                self._connection = None
        batch.not_before_ms = kernel.now_ms + client.rng.uniform(5, 100)
        batch.in_flight = False
