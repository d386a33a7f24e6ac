"""The frame fuzzer: a short run of it, what it covers, and that it finds and repeats planted errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from fuzz.frames.corpus import make_corpus, request_messages, versions_of
from fuzz.frames.engine import Engine, Sent, brokers_of, round_frames
from fuzz.frames.mutations import mutate, sweep
from fuzz.frames.reproduce import replay, save, signature
from fuzz.frames.target import Target
from fuzz.frames.tokens import sized, tokenize
from fuzz.frames.values import Known, Values
from ottla.broker.handlers import load_all
from ottla.broker.handlers.k16_list_groups import ListGroups
from ottla.broker.net.listeners import ListenerType
from ottla.wire import codec
from ottla.wire.frames import parse_request_header
from ottla.wire.schema import fields_of

FRAMES = 1200


@pytest.mark.parametrize(
    ("number", "step"), [(0, 29), (1, 1), (3, 1)], ids=["sweep", "one node", "three nodes"]
)
def test_no_frame_causes_a_failure(number: int, step: int) -> None:
    """`step`: every so many frames of the round, so that the sweep gets to all tokens."""
    engine = Engine(Target(brokers_of(number)))
    engine.run(islice(round_frames(1, number), 0, None, step), FRAMES)
    engine.target.close()
    assert [(found.failure, found.sent) for found in engine.found] == []
    counts = engine.counts
    assert counts.frames == counts.responded + counts.refused + counts.waiting == FRAMES
    assert counts.responded > FRAMES // 10
    assert counts.refused > FRAMES // 10


def test_a_seed_gives_the_same_frames() -> None:
    first, again, other = (list(islice(round_frames(seed, 3), 500)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_the_corpus_has_every_declared_api_version_and_listener() -> None:
    corpus = make_corpus(1, Known())
    found = {(entry.frame.api_key, entry.frame.version, entry.listener) for entry in corpus}
    declared = {
        (route.api_key, version, listener)
        for route in load_all()
        for version in versions_of(route)
        for listener in route.listeners
    }
    assert found == declared
    assert len(found) > 250


def test_every_declared_route_has_a_request_message() -> None:
    assert {route.api_key for route in load_all()} <= set(request_messages())


@pytest.mark.parametrize("message", request_messages().values(), ids=lambda message: message.__name__)
def test_tokens_are_valid_requests_of_all_fields(message: Any) -> None:
    """A frame of tokens is decoded to the end, and each field of the version has a token."""
    rng = random.Random(1)
    for version in message.SPEC.versions:
        names: set[str] = set()
        for _ in range(5):
            frame = tokenize(message, version, Values(rng, Known(), hostility=0))
            names |= {token.path.split(".")[1] for token in frame.tokens if token.path.startswith(".")}
            whole = sized(frame.parts)
            body = parse_request_header(memoryview(whole)[4:])[-1]
            assert codec.decode_at(message, whole[4:], version, body)[1] == len(whole) - 4
        assert names == {field.name for field in fields_of(message) if version in field.wire.versions}


def test_mutations_change_most_frames_and_never_the_corpus() -> None:
    corpus = make_corpus(1, Known(), instances=1)
    rng = random.Random(1)
    changed = 0
    for entry in corpus:
        before = sized(entry.frame.parts)
        changed += mutate(rng, entry.frame) != before
        assert len(set(sweep(entry.frame))) > 20
        assert sized(entry.frame.parts) == before
    assert changed > len(corpus) // 2


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], Sent]:
    """Plants an exception in the handler of ListGroups; returns a frame that calls it."""

    def plant(error: BaseException) -> Sent:
        async def handle(self: object, request: object, call: object) -> None:
            raise error

        monkeypatch.setattr(ListGroups, "handle", handle)
        message = request_messages()[16]
        frame = tokenize(message, 5, Values(random.Random(1), Known(), hostility=0))
        return Sent(ListenerType.BROKER, 0, sized(frame.parts))

    return plant


def test_an_unhandled_exception_is_found_minimised_and_repeated(
    planted: Callable[[BaseException], Sent], tmp_path: Path
) -> None:
    sent = planted(IndexError("planted"))
    harmless = Sent(ListenerType.BROKER, 0, b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff")
    engine = Engine(Target(brokers=1))
    engine.run(iter([harmless, sent, harmless]), 3)
    (found,) = engine.found
    assert found.sent == sent
    assert signature(found.failure) == "unhandled exception: IndexError: planted"

    path = save(tmp_path, found, seed=1, number=1)
    repeated = replay(path)
    assert {signature(each.failure) for each in repeated} == {signature(found.failure)}
    assert all(each.sent is not None and len(each.sent.frame) <= len(sent.frame) for each in repeated)
