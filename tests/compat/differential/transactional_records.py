"""Batches of transactions and their markers: Produce, WriteTxnMarkers, what readers see, and FindCoordinator."""

from __future__ import annotations

from typing import Any

from ottla.records.batch import iter_batches
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player
from tests.compat.differential.records import batch, produce, record, stored
from tests.compat.differential.transactions import END_ANY, Client

ADDS_ITSELF = 12
END_KEEPS_EPOCH = 3
UNCOMMITTED, COMMITTED = 0, 1


def part(client: Client, sequence: int, count: int = 1, ahead: int = 0, id_ahead: int = 0) -> bytes:
    """A batch of the client's transaction."""
    return batch(
        *[record(at=sequence) for _ in range(count)],
        producer_id=client.id + id_ahead, producer_epoch=client.epoch + ahead,
        base_sequence=sequence, transactional=True,
    )  # fmt: skip


def put(
    player: Player, label: str, client: Client | None, *parts: tuple[str, int, bytes], acks: int = -1
) -> Any:
    """Produce in the client's name; with none, without transactional id."""
    request = produce(player, *parts, acks=acks)
    request.transactional_id = None if client is None else client.name
    return player.ask(label, request)


def end(player: Player, client: Client, *, committed: bool) -> None:
    """End the transaction as the client's generation does, and see it complete."""
    version = END_ANY if player.version >= ADDS_ITSELF else END_KEEPS_EPOCH
    answer = player.quietly(client.ending(committed=committed), version)
    assert answer.error_code == 0, answer
    if version == END_ANY:
        client.id, client.epoch = answer.producer_id, answer.producer_epoch
    client.settle()


def seen(player: Player, label: str, topic: str, *clients: Client, partition: int = 0) -> None:
    """The fetch responses for a partition at both isolation levels, and its producers."""
    names = {client.id: client.name for client in clients}
    for isolation in (UNCOMMITTED, COMMITTED):
        asked = stored(player, topic, partition=partition)
        asked.isolation_level = isolation
        (found,) = player.quietly(asked, 11).responses[0].partitions
        batches = [] if found.records is None else list(iter_batches(bytes(found.records)))
        player.keep(
            f"{label}, isolation {isolation}",
            (
                found.error_code,
                found.high_watermark,
                found.last_stable_offset,
                [(h.base_offset, h.records_count, h.is_control, h.producer_epoch) for _, h in batches],
                [(names[one.producer_id], one.first_offset) for one in found.aborted_transactions or ()],
            ),
        )
        wanted = [ListOffsetsPartition(partition_index=partition, timestamp=-1)]
        asked_end = ListOffsetsRequest(
            replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=wanted)]
        )
        player.ask(f"{label}, end of {isolation}", asked_end, 5)
    described = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[partition])])
    (partition_state,) = player.quietly(described, 0).topics[0].partitions
    player.keep(
        f"{label}, producers",
        sorted(
            (names[one.producer_id], one.producer_epoch, one.last_sequence, one.current_txn_start_offset)
            for one in partition_state.active_producers
        ),
    )


def join(player: Player, client: Client, topic: str, *partitions: int) -> None:
    """Name the partitions, if the client's generation does."""
    if player.version < ADDS_ITSELF:
        client.add(topic, *partitions)


@scenario(ProduceRequest, since=3)
def produce_transactional(player: Player) -> None:
    topic = player.create("t", 3)
    client, stranger = Client(player), Client(player, "stranger")
    client.start()
    put(player, "without id", None, (topic, 0, part(client, 0)))
    put(player, "unknown id", stranger, (topic, 0, part(client, 0)))
    put(player, "acks 2", client, (topic, 0, part(client, 0)), acks=2)
    if player.version < ADDS_ITSELF:
        put(player, "not added", client, (topic, 0, part(client, 0)))
    join(player, client, topic, 0)
    put(player, "not at zero", client, (topic, 0, part(client, 3)))
    put(player, "first", client, (topic, 0, part(client, 0, 2)))
    seen(player, "open", topic, client)
    put(player, "first again", client, (topic, 0, part(client, 0, 2)))
    put(player, "second", client, (topic, 0, part(client, 2)))
    put(player, "gap", client, (topic, 0, part(client, 9)))
    put(player, "other producer", client, (topic, 0, part(client, 3, id_ahead=1000)))
    put(player, "older epoch", client, (topic, 0, part(client, 3, ahead=-1)))
    put(player, "newer epoch", client, (topic, 0, part(client, 0, ahead=1)))
    put(player, "two producers", client, (topic, 0, part(client, 3)), (topic, 1, part(client, 0, id_ahead=1)))
    plain = batch(producer_id=client.id, producer_epoch=client.epoch, base_sequence=3)
    put(player, "outside of it", client, (topic, 0, plain))
    put(player, "nowhere", client, (topic, 9, part(client, 0)), (topic, 0, part(client, 3)))
    end(player, client, committed=True)
    seen(player, "committed", topic, client)
    if player.version < ADDS_ITSELF:
        put(player, "after the end", client, (topic, 0, part(client, 4)))
    join(player, client, topic, 0, 1)
    sequence = 0 if player.version >= ADDS_ITSELF else 4
    put(player, "next", client, (topic, 0, part(client, sequence)), (topic, 1, part(client, 0)))
    put(player, "plain beside it", None, (topic, 2, batch()))
    end(player, client, committed=False)
    for partition in range(3):
        seen(player, f"aborted {partition}", topic, client, partition=partition)


@scenario(ProduceRequest, since=9)
def transactions_interleaved(player: Player) -> None:
    topic = player.create("t")
    clients = [Client(player, f"c{number}") for number in range(3)]
    for client in clients:
        client.start()
        join(player, client, topic, 0)
    for sequence in range(2):
        for client in clients:
            put(player, f"{client.name[-2:]} {sequence}", client, (topic, 0, part(client, sequence)))
    seen(player, "all open", topic, *clients)
    ids = list(clients)
    for number, committed in ((1, False), (0, True), (2, False)):
        end(player, clients[number], committed=committed)
        seen(player, f"{number} ended", topic, *ids)
    put(player, "plain", None, (topic, 0, batch()))
    seen(player, "after", topic, *ids)


def marker(
    client: Client,
    *topics: tuple[str, list[int]],
    committed: bool = True,
    ahead: int = 0,
    coordinator: int = 0,
    generation: int = 0,
) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=client.id,
        producer_epoch=client.epoch + ahead,
        transaction_result=committed,
        topics=[WritableTxnMarkerTopic(name=name, partition_indexes=list(parts)) for name, parts in topics],
        coordinator_epoch=coordinator,
        transaction_version=generation,
    )


@scenario(WriteTxnMarkersRequest)
def write_txn_markers(player: Player) -> None:
    topic = player.create("t", 2)
    first, second = Client(player, "a"), Client(player, "b")
    for client in (first, second):
        client.start()
        client.start()

    def write(label: str, *markers: WritableTxnMarker) -> None:
        player.ask(label, WriteTxnMarkersRequest(markers=list(markers)))

    def begin(client: Client, sequence: int) -> None:
        client.add(topic, 0)
        request = produce(player, (topic, 0, part(client, sequence)))
        request.transactional_id = client.name
        answer = player.quietly(request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0, answer

    write("nothing")
    write("no partition", marker(first))
    write("unknown", marker(first, (player.topic("nowhere"), [0]), (topic, [7])))
    write("nothing open", marker(first, (topic, [0, 1]), committed=False))
    seen(player, "nothing open", topic, first, second)
    begin(first, 0)
    begin(second, 0)
    write("older epoch", marker(first, (topic, [0]), ahead=-1))
    write("older coordinator", marker(first, (topic, [0]), coordinator=-1))
    write("of two", marker(first, (topic, [0]), coordinator=3), marker(second, (topic, [0]), committed=False))
    seen(player, "of two", topic, first, second)
    write("again", marker(first, (topic, [0]), coordinator=3))
    write("by an older coordinator", marker(first, (topic, [0]), coordinator=2))
    seen(player, "again", topic, first, second)


@scenario(WriteTxnMarkersRequest, since=2)
def markers_of_the_second_generation(player: Player) -> None:
    topic = player.create("t")
    client = Client(player, "a")
    client.start()
    client.start()
    client.add(topic, 0)
    request = produce(player, (topic, 0, part(client, 0)))
    request.transactional_id = client.name
    player.ask("begun", request, 9)

    def write(label: str, **options: Any) -> None:
        asked = WriteTxnMarkersRequest(markers=[marker(client, (topic, [0]), generation=2, **options)])
        player.ask(label, asked)
        seen(player, label, topic, client)

    write("epoch of the transaction")
    write("older epoch", ahead=-1)
    write("next epoch", ahead=1)
    write("next epoch again", ahead=1)
    write("epoch before", ahead=0)
    write("later epoch", ahead=5, committed=False)
    write("later epoch as commit", ahead=5)


@scenario(FindCoordinatorRequest)
def find_coordinator(player: Player) -> None:
    for key_type in (0, 1):
        warm = FindCoordinatorRequest(key="any", key_type=key_type)
        player.until(lambda warm=warm: player.quietly(warm, 3).error_code == 0)

    def find(label: str, *keys: str, key_type: int = 0) -> None:
        if player.version < 4:
            if player.version == 0 and key_type:
                return
            player.ask(label, FindCoordinatorRequest(key=keys[0] if keys else "", key_type=key_type))
        else:
            player.ask(label, FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type))

    find("a group", "group")
    find("a transaction", "id", key_type=1)
    find("no name", "")
    find("no name of a transaction", "", key_type=1)
    find("several", "one", "two", "one", "ünï🦆")
    find("none")
    find("unknown kind", "x", key_type=7)
    find("negative kind", "x", "y", key_type=-1)
