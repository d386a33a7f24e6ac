"""Valid requests of every API and version that the registry of handlers declares, as tokens.

New APIs, versions and listeners are included as soon as a handler declares them.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import ottla.wire.messages
from fuzz.frames.tokens import TokenFrame, sized, tokenize
from fuzz.frames.values import Known, Values
from ottla.base.ids import Uuid
from ottla.broker.handlers import load_all
from ottla.broker.net.listeners import ListenerType
from ottla.broker.registry import Route
from ottla.wire.schema import Message

_INNER_FRAMES = 40
_METADATA = "__cluster_metadata"


class Entry(NamedTuple):
    """A request, and the type of the listener that serves it."""

    listener: ListenerType
    frame: TokenFrame


@cache
def request_messages() -> dict[int, type[Message]]:
    """Every declared request by its API key."""
    found: dict[int, type[Message]] = {}
    for module in pkgutil.iter_modules(ottla.wire.messages.__path__):
        for value in vars(importlib.import_module(f"ottla.wire.messages.{module.name}")).values():
            spec = getattr(value, "SPEC", None)
            if spec is not None and spec.kind == "request":
                found[spec.api_key] = value
    return found


def versions_of(route: Route) -> range:
    """The versions of a route that its message declares."""
    declared = request_messages()[route.api_key].SPEC.versions
    return range(max(route.versions[0], declared[0]), min(route.versions[1], declared[-1]) + 1)


def make_corpus(seed: int, known: Known, instances: int = 3) -> list[Entry]:
    """`instances` requests of each API, version and type of listener; the first has mostly regular values."""
    rng = random.Random(f"{seed}/corpus")
    messages = request_messages()
    routes = sorted(
        load_all(), key=lambda each: (each.api_key, sorted(kind.value for kind in each.listeners))
    )
    forwarded = [route for route in routes if route.forwarded and route.api_key in messages]
    for _ in range(_INNER_FRAMES):
        route = rng.choice(forwarded)
        frame = tokenize(messages[route.api_key], rng.choice(versions_of(route)), Values(rng, known))
        known.inner.append(sized(frame.parts)[4:])
    # Requests of the quorum name the metadata log, which has a reserved id.
    metadata = {"topics": [*known.topics, _METADATA], "topic_ids": [*known.topic_ids, *[Uuid(int=1)] * 3]}
    known_on = {ListenerType.BROKER: known, ListenerType.CONTROLLER: replace(known, **metadata)}
    found = []
    for route in routes:
        if route.api_key not in messages:
            continue
        for kind in sorted(route.listeners, key=lambda each: each.value):
            for version in versions_of(route):
                for number in range(instances):
                    values = Values(rng, known_on[kind], hostility=0.02 if number == 0 else 0.1)
                    found.append(Entry(kind, tokenize(messages[route.api_key], version, values)))
    return found
