"""Rounds of the in-process fuzzer: a new cluster for each round, many frames to it, and what they caused.

A round is a function of the seed and its number: `round_frames` yields its frames, `Engine` delivers them. Rounds with
an even number are sweeps, parts of all replacements of all tokens; the others are random. What a round measures:

- refused: the connection was closed; responded: a response was sent; waiting: neither, within some turns;
- the longest time that one frame occupied the loop, in CPU time, because other processes use the machine too;
- for a sample of the frames, the memory that handling a frame allocated, at its peak.
"""

from __future__ import annotations

import random
import resource
import time
import tracemalloc
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from typing import Final, NamedTuple

from fuzz.frames.corpus import Entry, make_corpus
from fuzz.frames.mutations import mutate, sweep
from fuzz.frames.target import Endpoint, Failure, FuzzSocket, Stage, Target
from ottla.broker.net.listeners import ListenerType
from ottla.wire.apis import ApiKey

ROUND_FRAMES: Final = 40_000
CONNECTIONS: Final = 64
WAITING_MAX: Final = 100
SLOW_SECONDS: Final = 1.0
LARGE_BYTES: Final = 8192
MEMORY_PER_BYTE_MAX: Final = 4
MEMORY_ALLOWANCE_BYTES: Final = 16 << 20
"""Allowed in addition to the bytes per byte received: the fixed budget of a decoded request, and its response."""
_SAMPLED: Final = 4000
_SAMPLES: Final = 16
"""Of so many frames, so many are measured, if they are small; half of the large ones are."""
SWEEP_ROUNDS: Final = 8
"""The sweep of all tokens of the corpus takes so many rounds."""
_OTHER_LISTENER: Final = 0.02
_STAGES: Final = (None, None, *Stage)
_REUSED: Final = (None, Stage.NEW, Stage.AUTHENTICATED)
"""Connections of these stages are used for more frames: a frame in another stage mostly ends it."""
_AUTHENTICATED_AT_ONCE: Final = 32
_LOGIN_SHARE: Final = 0.7
_LOGIN_APIS: Final = frozenset({ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS})
_CONTROLLER_SHARE: Final = 0.25


class Sent(NamedTuple):
    """A frame, the type of listener that it is sent to, the number of the node, and the stage of the connection."""

    listener: ListenerType
    node: int
    frame: bytes
    stage: Stage | None = None
    """None: a listener without authentication."""


class Found(NamedTuple):
    """A failure with the frame that is its probable cause, and the frames before it in its round."""

    failure: Failure
    sent: Sent | None
    turn: tuple[Sent, ...]
    position: int


@dataclass(slots=True)
class Counts:
    """What happened; the counts of several processes can be added."""

    frames: int = 0
    bytes: int = 0
    responded: int = 0
    refused: int = 0
    waiting: int = 0
    connections: int = 0
    by_api: Counter[int] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    slow: int = 0
    slowest_seconds: float = 0.0
    slowest: str = ""
    sampled: int = 0
    memory_peak: int = 0
    memory_per_byte: float = 0.0
    memory_worst: str = ""
    rounds: int = 0
    max_rss_bytes: int = 0

    def add(self, other: Counts) -> None:
        for name in (
            "frames",
            "bytes",
            "responded",
            "refused",
            "waiting",
            "connections",
            "slow",
            "sampled",
            "rounds",
        ):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.by_api += other.by_api
        self.failures += other.failures
        if other.slowest_seconds > self.slowest_seconds:
            self.slowest_seconds, self.slowest = other.slowest_seconds, other.slowest
        if other.memory_per_byte > self.memory_per_byte:
            self.memory_per_byte, self.memory_worst = other.memory_per_byte, other.memory_worst
        self.memory_peak = max(self.memory_peak, other.memory_peak)
        self.max_rss_bytes = max(self.max_rss_bytes, other.max_rss_bytes)


@cache
def _corpus(seed: int, brokers: int) -> list[Entry]:
    target = Target(brokers)
    target.close()
    return make_corpus(seed, target.known)


def brokers_of(number: int) -> int:
    """The number of brokers in a round."""
    return 1 if number % 4 == 1 else 3


def round_frames(seed: int, number: int) -> Iterator[Sent]:
    """The frames of a round, without an end."""
    rng = random.Random(f"{seed}/{number}")
    corpus = _corpus(seed, brokers_of(number))
    by_listener = {kind: [each for each in corpus if each.listener is kind] for kind in ListenerType}
    by_listener = {kind: entries for kind, entries in by_listener.items() if entries}
    kinds = list(by_listener)
    logins = [each for each in by_listener[ListenerType.BROKER] if each.frame.api_key in _LOGIN_APIS]
    if number % 2 == 0:
        entries = corpus[number // 2 % SWEEP_ROUNDS :: SWEEP_ROUNDS]
        for row in zip_longest(*(sweep(entry.frame) for entry in entries)):
            for entry, frame in zip(entries, row, strict=True):
                if frame is not None:
                    yield Sent(entry.listener, int(rng.random() * 3), frame)
    while True:
        kind = ListenerType.CONTROLLER if rng.random() < _CONTROLLER_SHARE else ListenerType.BROKER
        entries = by_listener.get(kind) or by_listener[kinds[0]]
        entry = entries[int(rng.random() * len(entries))]
        listener = kind if rng.random() > _OTHER_LISTENER else kinds[int(rng.random() * len(kinds))]
        stage = None
        if brokers_of(number) == 1 and listener is ListenerType.BROKER:
            stage = _STAGES[int(rng.random() * len(_STAGES))]
            if stage not in (None, Stage.AUTHENTICATED) and rng.random() < _LOGIN_SHARE:
                entry = logins[int(rng.random() * len(logins))]
        yield Sent(listener, int(rng.random() * 3), mutate(rng, entry.frame), stage)


class Engine:
    """Delivers frames to one cluster."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.counts = Counts()
        self.found: list[Found] = []
        self._idle: dict[tuple[Endpoint, Stage | None], list[FuzzSocket]] = {}
        self._endpoints: dict[tuple[object, ...], tuple[Endpoint, Stage | None]] = {}
        self._waiting: deque[FuzzSocket] = deque()
        self._reading: FuzzSocket | None = None
        self._since = 0.0
        self._slowest: tuple[float, FuzzSocket | None] = (0.0, None)
        self._position = 0
        target.on_read = self._on_read

    def run(self, frames: Iterator[Sent], count: int) -> None:
        """Deliver so many frames, several in each turn; large ones, and a sample, one in its turn."""
        left = count
        pending: Sent | None = None
        while left > 0 or pending is not None:
            sampled = self._position % _SAMPLED < _SAMPLES
            turn: list[Sent] = []
            while left > 0 and len(turn) < (1 if sampled else CONNECTIONS) and pending is None:
                left -= 1
                each = next(frames)
                if len(each.frame) > LARGE_BYTES:
                    pending = each
                else:
                    turn.append(each)
            if turn:
                self._turn(turn, measured=sampled)
            if pending is not None:
                self._turn([pending], measured=self._position % 2 == 0)
                pending = None

    def _turn(self, turn: list[Sent], *, measured: bool) -> None:
        target, counts = self.target, self.counts
        sockets = []
        for sent in turn:
            socket = self._connection(sent)
            socket.deliver(sent.frame)
            sockets.append((socket, sent))
            counts.by_api[int.from_bytes(sent.frame[4:6], "big")] += 1
            counts.bytes += len(sent.frame)
        counts.frames += len(turn)
        self._position += len(turn)
        if measured:
            tracemalloc.start(1)
            before = tracemalloc.get_traced_memory()[0]
        self._since = time.perf_counter()
        self._slowest = (0.0, None)
        started = time.thread_time()
        target.turn()
        self._handled()
        if not measured:
            self._timed(time.thread_time() - started)
        if measured:
            peak = tracemalloc.get_traced_memory()[1] - before
            tracemalloc.stop()
            self._measured(turn[0], peak)
        for socket, sent in sockets:
            self._classify(socket, sent)
        if target.failures:
            self._failed(sockets)

    def collect(self) -> None:
        """Record failures that occurred after the last turn."""
        self._failed([])

    def _endpoint(self, sent: Sent) -> Endpoint:
        endpoints = self.target.endpoints
        found = [
            each
            for each in endpoints
            if each.type is sent.listener and each.protocol.uses_sasl is (sent.stage is not None)
        ]
        return (found or endpoints)[sent.node % len(found or endpoints)]

    def _connection(self, sent: Sent) -> FuzzSocket:
        key = self._endpoints.get(sent[:2] + sent[3:])
        if key is None:
            key = self._endpoints[sent[:2] + sent[3:]] = (self._endpoint(sent), sent.stage)
        idle = self._idle.setdefault(key, [])
        while idle:
            socket = idle.pop()
            if not socket.closed:
                return socket
        opened = [self.target.open(key[0]) for _ in range(_AUTHENTICATED_AT_ONCE if sent.stage else 1)]
        self.counts.connections += len(opened)
        if sent.stage is not None:
            self.target.turn()
            self.target.authenticate(opened, sent.stage)
        idle += opened[1:]
        return opened[0]

    def _classify(self, socket: FuzzSocket, sent: Sent) -> None:
        counts = self.counts
        if socket.received_bytes:
            counts.responded += 1
        elif socket.closed:
            counts.refused += 1
        else:
            counts.waiting += 1
            self._waiting.append(socket)
            if len(self._waiting) > WAITING_MAX:
                self._waiting.popleft().hang_up()
            return
        if not socket.closed and sent.stage in _REUSED:
            self._idle[self._endpoints[sent[:2] + sent[3:]]].append(socket)
        elif not socket.closed:
            socket.hang_up()

    # Measurements

    def _on_read(self, socket: FuzzSocket) -> None:
        self._handled()
        self._reading = socket

    def _handled(self) -> None:
        """The time since the last call belongs to the connection that was read then."""
        now = time.perf_counter()
        spent = now - self._since
        self._since = now
        if self._reading is not None and spent > self._slowest[0]:
            self._slowest = (spent, self._reading)
        self._reading = None

    def _timed(self, cpu_seconds: float) -> None:
        """The slowest request of the turn took at most the CPU time of the turn."""
        counts = self.counts
        spent, socket = self._slowest
        spent = min(spent, cpu_seconds)
        if socket is None:
            return
        if spent > counts.slowest_seconds:
            counts.slowest_seconds = spent
            counts.slowest = describe(socket.frame)
        if spent > SLOW_SECONDS:
            counts.slow += 1
            self.target.failures.append(Failure("slow request", f"{spent:.2f} s", socket.name))

    def _measured(self, sent: Sent, peak: int) -> None:
        counts = self.counts
        counts.sampled += 1
        counts.memory_peak = max(counts.memory_peak, peak)
        ratio = max(0, peak - MEMORY_ALLOWANCE_BYTES) / len(sent.frame)
        if ratio > counts.memory_per_byte:
            counts.memory_per_byte = ratio
            counts.memory_worst = describe(sent.frame)
        if ratio > MEMORY_PER_BYTE_MAX:
            text = f"{peak} bytes for a frame of {len(sent.frame)}"
            self.target.failures.append(Failure("memory", text))

    def _failed(self, sockets: list[tuple[FuzzSocket, Sent]]) -> None:
        turn = tuple(sent for _, sent in sockets)
        for failure in self.target.failures:
            cause = next(
                (sent for socket, sent in sockets if failure.peer.startswith(f"{socket.name}")), None
            )
            if cause is None and len(turn) == 1:
                cause = turn[0]
            self.counts.failures[failure.kind] += 1
            self.found.append(Found(failure, cause, turn, self._position))
        self.target.failures.clear()


def describe(frame: bytes) -> str:
    """The API, version and size of a frame, and its first bytes."""
    key = int.from_bytes(frame[4:6], "big", signed=True)
    version = int.from_bytes(frame[6:8], "big", signed=True)
    return f"API {key} v{version}, {len(frame)} bytes, {frame[:40].hex()}"


def run_round(seed: int, number: int, frames: int = ROUND_FRAMES) -> Engine:
    """Run one round on a new cluster."""
    source = round_frames(seed, number)
    target = Target(brokers_of(number))
    engine = Engine(target)
    try:
        engine.run(source, frames)
    finally:
        target.close()
    engine.counts.rounds = 1
    engine.counts.max_rss_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return engine
