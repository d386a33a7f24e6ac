"""Fetch: plain, by sessions, by limits."""

from __future__ import annotations

import uuid
from typing import Any

from ottla.base.ids import ZERO_UUID
from ottla.records.compression import Codec
from ottla.wire.frames import request_frame
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player
from tests.compat.differential.records import UNKNOWN_ID, batch, record, write

LOTS = 1 << 24


def want(
    topic: str, index: int = 0, offset: int = 0, *, max_bytes: int = LOTS, **options: Any
) -> tuple[str, FetchPartition]:
    return topic, FetchPartition(
        partition=index, fetch_offset=offset, partition_max_bytes=max_bytes, **options
    )


def fetch(
    player: Player,
    *wanted: tuple[str, FetchPartition],
    forgotten: dict[str, list[int]] | None = None,
    ids: dict[str, uuid.UUID] | None = None,
    **options: Any,
) -> FetchRequest:
    def identify(topic: str) -> uuid.UUID:
        known = {name: key for key, name in player.names.items()} | (ids or {})
        return known.get(topic, UNKNOWN_ID)

    topics: dict[str, FetchTopic] = {}
    for topic, partition in wanted:
        entry = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=identify(topic), partitions=[]))
        entry.partitions.append(partition)
    options.setdefault("max_bytes", LOTS)
    options.setdefault("max_wait_ms", 0)
    request = FetchRequest(topics=list(topics.values()), **options)
    request.forgotten_topics_data = [
        ForgottenTopic(topic=topic, topic_id=identify(topic), partitions=partitions)
        for topic, partitions in (forgotten or {}).items()
    ]
    return request


@scenario(FetchRequest)
def fetch_plain(player: Player) -> None:
    topic, other = player.create("one", 4), player.create("other")
    packed, cut = player.create("packed"), player.create("cut")
    write(
        player,
        topic,
        batch(record(b"a"), record(b"b", at=1)),
        batch(record(b"c")),
        batch(record(b"d"), record(b"e")),
    )
    write(player, topic, batch(record(bytes(500))), partition=1)
    write(player, other, *[batch(record(bytes(100))) for _ in range(5)])
    write(player, packed, *[batch(*[record(b"z" * 99)] * 9, codec=codec) for codec in Codec])
    write(player, cut, *[batch(record(), record(), record()) for _ in range(3)])
    gone = DeleteRecordsTopic(name=cut, partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
    player.quietly(DeleteRecordsRequest(topics=[gone], timeout_ms=10_000), 2)

    def get(label: str, *wanted: tuple[str, FetchPartition], **options: Any) -> None:
        player.ask(label, fetch(player, *wanted, **options))

    get("nothing")
    for offset in (-2, -1, 0, 1, 2, 3, 4, 5, 6, 1 << 40):
        get(f"at {offset}", want(topic, 0, offset))
    for offset in (0, 3, 4, 8, 9):
        get(f"cut at {offset}", want(cut, 0, offset))
    get("inside packed", want(packed, 0, 13))
    get("empty", want(topic, 3))
    get("four partitions", *[want(topic, index) for index in (2, 0, 3, 1)])
    get("two topics", want(other), want(topic), want(topic, 1))
    get("unknown partition", want(topic, 9), want(topic), want(topic, -1))
    get("unknown topic", want(player.topic("nowhere")), want(topic))
    get("out of range between", want(topic, 1), want(topic, 0, 77), want(other))
    get("the same partition twice", want(topic, 0, 0), want(topic, 0, 3))
    get("committed", want(topic), want(topic, 3), want(topic, 0, 99), isolation_level=1)
    get("isolation 5", want(topic), isolation_level=5)
    get("bad name", want("a/b"))
    for limit in (-1, 0, 1, 61, 170, 200, 400, 2_000):
        get(f"request limit {limit}", want(topic, 1), want(other), want(topic), max_bytes=limit)
        get(f"partition limit {limit}", want(other, max_bytes=limit), want(topic, 1, max_bytes=limit))
        get(f"both limits {limit}", want(other, max_bytes=limit), want(topic, 1), max_bytes=limit)
    for offset in (-1, 4, 5, 6):
        get(f"negative limit at {offset}", want(topic, 0, offset, max_bytes=-1), want(topic, 3, max_bytes=-1))
    get(
        "errors in order",
        *[want(name, index) for index in (9, 0) for name in (topic, player.topic("x"), other)],
    )
    for wanted in (-1, 0, 1, 10, 1_000_000):
        get(f"at least {wanted}", want(topic, 3), min_bytes=wanted, max_wait_ms=10)
        get(f"at least {wanted} of some", want(topic), min_bytes=wanted, max_wait_ms=10)
    get("error does not wait", want(topic, 0, 99), min_bytes=1_000, max_wait_ms=6_000)
    get("negative wait", want(topic, 3), min_bytes=1, max_wait_ms=-1)
    if player.version >= 9:
        for epoch in (-2, 0, 1, 5):
            get(f"leader epoch {epoch}", want(topic, current_leader_epoch=epoch), want(other))
    if player.version >= 12:
        for last, at in ((0, 2), (0, 5), (1, 2), (-2, 2), (0, 0), (7, 99), (0, 99)):
            get(f"last fetched epoch {last} at {at}", want(topic, 0, at, last_fetched_epoch=last))
        get("another cluster", want(topic), cluster_id="nonsense")
    if player.version >= 13:
        get("no topic id", want(topic), ids={topic: ZERO_UUID})
    if player.version < 15:
        for replica in (-2, 1, 7):
            get(f"as replica {replica}", want(topic), replica_id=replica)
    if player.version >= 5:
        get("log start", want(topic, log_start_offset=3))


@scenario(FetchRequest, since=7)
def fetch_session(player: Player) -> None:
    topic, other = player.create("one", 3), player.create("other")
    write(player, topic, batch(record(b"a")))

    def get(label: str, session: int, epoch: int, *wanted: tuple[str, FetchPartition], **options: Any) -> Any:
        return player.ask(label, fetch(player, *wanted, session_id=session, session_epoch=epoch, **options))

    opened = get("open", 0, 0, want(topic), want(topic, 1), want(other))
    session = opened.session_id
    get("nothing new, again at the old place", session, 1)
    get("move on", session, 2, want(topic, 0, 1))
    get("nothing", session, 3)
    write(player, topic, batch(record(b"b")), batch(record(b"c")))
    write(player, other, batch(record(b"o")))
    get("new records", session, 4)
    get("again", session, 5)
    get("caught up", session, 6, want(topic, 0, 3), want(other, 0, 1))
    get("add a partition", session, 7, want(topic, 2))
    write(player, topic, batch(), partition=2)
    get("it has records", session, 8)
    get("forget it", session, 9, forgotten={topic: [2]})
    get("forget what is not there", session, 10, forgotten={topic: [2, 9], player.topic("nowhere"): [0]})
    get("out of range", session, 11, want(topic, 0, 99))
    get("still out of range", session, 12)
    get("back", session, 13, want(topic, 0, 3))
    get("unknown partition", session, 14, want(topic, 8))
    get("still unknown", session, 15)
    get("forget the unknown", session, 16, forgotten={topic: [8]})
    get("add and forget at once", session, 17, want(topic, 2), forgotten={topic: [2]})
    get("after that", session, 18)
    get("wrong epoch", session, 25)
    get("epoch of before", session, 18)
    get("the right epoch still", session, 19)
    get("unknown topic", session, 20, want(player.topic("nowhere")))
    get("unknown topic still", session, 21)
    write(player, topic, batch(record(b"x" * 300)))
    get("small limit", session, 22, max_bytes=1)
    get("unknown session", 4711 if session != 4711 else 4712, 3, want(topic))
    get("no session but an epoch", 0, 5, want(topic))
    get("close while asking", session, -1, want(topic, 0, 0))
    get("closed", session, 23)
    again = get("open again", 0, 0, want(topic, 0, 4))
    get("replace", again.session_id, 0, want(other, 0, 1))
    get("the replaced one", again.session_id, 1)
    get("negative session", -5, 0, want(topic, 0, 4))
    get("negative epoch", 0, -5, want(topic, 0, 4))
    get("open empty", 0, 0)


@scenario(FetchRequest, since=7)
def fetch_session_order(player: Player) -> None:
    """Partitions that brought data go to the end of the line."""
    topic = player.create("one", 4)
    for index in range(4):
        write(player, topic, *[batch(record(bytes(200))) for _ in range(3)], partition=index)

    def get(label: str, session: int, epoch: int, *wanted: tuple[str, FetchPartition], **options: Any) -> Any:
        return player.ask(label, fetch(player, *wanted, session_id=session, session_epoch=epoch, **options))

    session = get("open", 0, 0, *[want(topic, n) for n in (3, 1, 0, 2)], max_bytes=300).session_id
    for epoch in range(1, 8):
        get(f"turn {epoch}", session, epoch, max_bytes=300)
    get("update one", session, 8, want(topic, 1, 2), max_bytes=300)
    get("after the update", session, 9, max_bytes=300)
    get("forget and add", session, 10, want(topic, 3, 1), forgotten={topic: [3]}, max_bytes=300)
    get("everything", session, 11)


@scenario(FetchRequest, since=7)
def fetch_deleted(player: Player) -> None:
    """A topic that is deleted, and one of the same name, while a session holds it."""
    topic = player.create("one")
    write(player, topic, batch(record(b"old")))

    def get(label: str, session: int, epoch: int, *wanted: tuple[str, FetchPartition], **options: Any) -> Any:
        return player.ask(label, fetch(player, *wanted, session_id=session, session_epoch=epoch, **options))

    session = get("open", 0, 0, want(topic, 0, 1)).session_id
    old_id = player.topic_id(topic)
    player.quietly(DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000), 6)
    player.wait_gone(topic)
    get("deleted", session, 1)
    get("deleted still", session, 2)
    get("deleted, no session", 0, -1, want(topic, 0, 1))
    del player.names[old_id]
    player.create("one")
    get("made anew", session, 3)
    get("made anew, by old id", 0, -1, want(topic), ids={topic: old_id})
    get("made anew, by new id", session, 4, want(topic))
    get("both ids", session, 5, want(topic), ids={topic: old_id})
    write(player, topic, batch(record(b"new")))
    get("written", session, 6)


@scenario(FetchRequest, newest_only=True)
def fetch_segments(player: Player) -> None:
    """A fetch never crosses segments."""
    topic = player.create("one", segment_bytes="1048576")
    by_time = player.create("by-time", segment_ms="1000")
    write(player, topic, *[batch(record(bes)) for bes in [b"x" * 300_000] * 6])
    write(player, by_time, *[batch(record(at=n * 600)) for n in range(6)])
    for name, size in ((topic, 6), (by_time, 6)):
        for offset in range(size + 1):
            answer = player.quietly(fetch(player, want(name, 0, offset)))
            got = answer.responses[0].partitions[0]
            player.keep(
                f"{name.removeprefix(player.prefix)} at {offset}", [got.error_code, len(got.records or b"")]
            )


@scenario(FetchRequest, newest_only=True)
def fetch_waits(player: Player) -> None:
    """A fetch with too little to answer waits for more, from whichever partition it comes."""
    topic, other = player.create("one", 2), player.create("other")
    writer = Player(player.address, player.prefix, player.version, names=player.names)

    def wait(label: str, request: FetchRequest, *writes: tuple[str, int, bytes]) -> None:
        player.client.send(request_frame(request, player.version, 77, "raw"))
        for name, index, data in writes:
            write(writer, name, data, partition=index)
        answer = player.client.read(request.SPEC.api_key, player.version, FetchResponse, 77)
        player.keep(label, player.plain(answer))

    patient = {"max_wait_ms": 20_000}
    one = batch(record(bytes(100)))
    wait("one byte", fetch(player, want(topic), min_bytes=1, **patient), (topic, 0, one))
    wait(
        "the other partition",
        fetch(player, want(topic, 0, 1), want(topic, 1), min_bytes=1, **patient),
        (topic, 1, one),
    )
    enough = fetch(player, want(topic, 0, 1), want(topic, 1, 1), want(other), min_bytes=300, **patient)
    wait("two of them", enough, (topic, 0, one), (other, 0, one))
    wait("not enough", fetch(player, want(topic, 0, 2), min_bytes=1_000, max_wait_ms=300), (topic, 0, one))
    opened = fetch(player, want(topic, 0, 3), want(other, 0, 1), session_epoch=0, min_bytes=0)
    session = player.ask("a session", opened).session_id
    wait(
        "in a session",
        fetch(player, session_id=session, session_epoch=1, min_bytes=1, **patient),
        (other, 0, one),
    )
    writer.reconnect()
