"""Fetch of records as a client implements it: whole batches, without aborted transactions; every response is checked.

Rules: C1 no record beyond the high watermark or the last stable offset is seen, and none of an aborted transaction;
C2 what is seen is exactly what the log contains between two positions.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.records.batch import crc_ok, iter_batches
from ottla.records.control import read_end_txn
from ottla.records.record import iter_records
from ottla.testing.sim.clients.client import BROKER_ERRORS, Client, by_topic
from ottla.testing.sim.clients.process import NoResponse
from ottla.testing.sim.clients.routes import NodeRoute
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

_VERSION: Final = 12  # the last one with topic names
_PARTITION_BYTES: Final = 4096
Seen = list[tuple[int, str]]


class Fetcher:
    """Fetches for one client, from the leaders of its partitions, or from any replica (`from_followers`)."""

    def __init__(self, client: Client, *, committed: bool, from_followers: bool = False) -> None:
        self._client = client
        self._committed = committed
        self._from_followers = from_followers
        self._routes: dict[int, NodeRoute] = {}

    async def fetch(self, positions: dict[TopicPartition, int], wait_ms: int) -> dict[TopicPartition, Seen]:
        """Fetch records at the positions, and advance the positions; raises NoResponse if no broker responds."""
        by_node = await self._nodes(positions)
        loop = self._client.process.loop
        tasks = [
            loop.create_task(self._fetch_from(node_id, partitions, positions, wait_ms))
            for node_id, partitions in by_node.items()
        ]
        found: dict[TopicPartition, Seen] = {}
        failure: NoResponse | None = None
        for task in tasks:
            try:
                found |= await task
            except NoResponse as error:
                failure = error
        if failure is not None and not found:
            raise failure
        return found

    async def _nodes(self, positions: dict[TopicPartition, int]) -> dict[int, list[TopicPartition]]:
        """The partitions to fetch from each broker; raises NoResponse if no leader is known."""
        client, routes = self._client, self._client.routes
        missing = [tp for tp in positions if tp not in routes.leaders]
        if missing:
            await routes.leader(missing[0])
        found: dict[int, list[TopicPartition]] = {}
        for tp in positions:
            leader = routes.leaders.get(tp)
            if leader is not None:
                node_id = leader.node_id
                if self._from_followers and len(leader.replicas) > 1:
                    node_id = client.rng.choice(leader.replicas)
                found.setdefault(node_id, []).append(tp)
        return found

    async def _fetch_from(
        self,
        node_id: int,
        partitions: list[TopicPartition],
        positions: dict[TopicPartition, int],
        wait_ms: int,
    ) -> dict[TopicPartition, Seen]:
        client, committed = self._client, self._committed
        leaders = client.routes.leaders
        epochs = {tp: leaders[tp].epoch for tp in partitions if tp in leaders}
        topics = [
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(
                        partition=index,
                        fetch_offset=positions[TopicPartition(topic, index)],
                        current_leader_epoch=epochs.get(TopicPartition(topic, index), -1),
                        partition_max_bytes=_PARTITION_BYTES,
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        request = FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, isolation_level=1 if committed else 0, topics=topics
        )
        route = self._routes.get(node_id)
        if route is None:
            route = self._routes[node_id] = NodeRoute(client.routes, node_id)
        response = await route.request(request, _VERSION, FetchResponse, wait_ms + 3000)
        client.expect(response.error_code, ErrorCode.NONE, doing="Fetch")
        found: dict[TopicPartition, Seen] = {}
        for topic_data in response.responses:
            for data in topic_data.partitions:
                tp = TopicPartition(topic_data.topic, data.partition_index)
                if client.expect(data.error_code, ErrorCode.NONE, BROKER_ERRORS, doing="Fetch"):
                    continue
                if tp in positions:
                    found[tp] = take(client, tp, data, positions, committed=committed)
        return found


def take(
    client: Client,
    tp: TopicPartition,
    data: PartitionData,
    positions: dict[TopicPartition, int],
    *,
    committed: bool,
) -> Seen:
    """The records of one partition, compared with the log; advances its position."""
    start = end = positions[tp]
    aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or [])
    excluded: set[int] = set()
    seen: Seen = []
    view = memoryview(data.records or b"")
    for position, header in iter_batches(view):
        batch = view[position : position + header.size_in_bytes]
        if not crc_ok(batch):
            client.kernel.count("damaged batches detected")
            break  # as a client does: it reads from another replica, or later
        end = max(end, header.last_offset + 1)
        while aborted and aborted[0][0] <= header.last_offset:
            excluded.add(aborted.pop(0)[1])
        if header.is_control:
            marker = next(iter_records(batch, header))
            ended = read_end_txn(marker.key, marker.value)
            if ended is not None and not ended.committed:
                excluded.discard(header.producer_id)
        elif not (committed and header.is_transactional and header.producer_id in excluded):
            seen += [
                (header.base_offset + record.offset_delta, (record.value or b"").decode())
                for record in iter_records(batch, header)
                if header.base_offset + record.offset_delta >= start
            ]
    limit = data.last_stable_offset if committed else data.high_watermark
    kernel = client.kernel
    kernel.check(end <= max(limit, start), "C1 no undecided record is read", f"{tp}: {end}, limit {limit}")
    # After a clean restart a marker above the high watermark counts already: a commit that is decided may be read.
    cluster = client.cluster
    undecided = cluster.txns.undecided(tp, start, end) if committed else {}
    early = {value for value, producer in undecided.items() if cluster.txn_states.is_committed(producer)}
    expected = cluster.txns.visible(tp, start, end, committed=committed)
    kernel.check(
        [each for each in seen if each[1] not in early] == expected,
        "C1 C2 a reader sees exactly the log",
        f"{client.name} {tp} from {start} to {end}: {seen} instead of {expected}",
    )
    positions[tp] = end
    return seen
