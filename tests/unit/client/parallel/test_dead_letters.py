"""Headers and failures of dead letters."""

from __future__ import annotations

from confluent_kafka import Message

from ottla.client.parallel.assignment import Assignment, Work
from ottla.client.parallel.dead_letters import DeadLetters, headers_of
from ottla.client.parallel.offset_tracker import OffsetTracker
from tests.unit.client.parallel.fakes import P1


def work_of(headers: list[tuple[str, bytes | None]] | None) -> Work:
    work = Work(Assignment(P1, OffsetTracker()), 42, None, Message(*P1, 42, b"k", b"v", headers))
    work.attempts = 3
    return work


def test_the_headers_of_the_record_precede_those_of_the_dead_letter() -> None:
    assert headers_of(work_of([("trace", b"1"), ("empty", None)]), ValueError("bad"), "g") == [
        ("trace", b"1"),
        ("empty", None),
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"1"),
        ("__dlq.errors.offset", b"42"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"ValueError: bad"),
    ]


def test_a_long_error_is_cut() -> None:
    headers = dict(headers_of(work_of(None), ValueError("x" * 5_000), "g"))
    assert len(headers["__dlq.errors.message"] or b"") == 1_000


def test_a_dead_letter_that_cannot_be_produced_is_reported() -> None:
    letters = DeadLetters({"bootstrap.servers": "127.0.0.1:1", "message.max.bytes": 1_000}, "dead", "g")
    refused: list[tuple[Work, BaseException]] = []
    letters.start(lambda _work: None, lambda work, error: refused.append((work, error)))
    work = work_of([("large", b"x" * 2_000)])
    letters.put(work, ValueError())
    letters.close(30)
    ((of, error),) = refused
    assert of is work
    assert "offset 42 of t-1" in str(error)
