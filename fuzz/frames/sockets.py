"""Frames over sockets to a live cluster of three broker processes, beside a well-behaved client.

The frames are those of the rounds in process, but they do not contain what exists in the cluster, except two topics.
Valid requests that may fence a broker or limit other clients are left out: the latency of the well-behaved client shows
what the handling of frames costs. What must hold: no broker ends, none logs an exception, the client gets no error, and
no request of it takes more than a second.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Final

import typer
from confluent_kafka.admin import AdminClient, NewTopic

from fuzz.frames import canary
from fuzz.frames.canary import Latencies
from fuzz.frames.corpus import make_corpus, request_messages
from fuzz.frames.engine import Counts, Sent
from fuzz.frames.mutations import mutate
from fuzz.frames.report import by_api
from fuzz.frames.values import Known
from ottla.base.errors import RemoteProtocolError
from ottla.broker.net.listeners import ListenerType
from ottla.local.cluster import BrokerPorts
from ottla.testing import Cluster
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import parse_request_header

CONNECTIONS: Final = 32
RESPONSE_S: Final = 0.3
"""After this time a request counts as waiting, and its connection is closed."""
QUIET_S: Final = 15.0
"""How long the latency is measured before the fuzzer starts."""
CANARY: Final = "canary"
_CONTROLLER_SHARE: Final = 0.15
_FAILED: Final = re.compile(r"request failed|unexpected exception|Traceback|an invariant is violated")
_SHOWN_S: Final = 2.0
_EFFECTIVE: Final = frozenset(
    {
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ELECT_LEADERS,
        ApiKey.ENVELOPE,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.ALTER_PARTITION,
    }
)
"""With these a client of a cluster without authentication can fence brokers, or limit or move what others use."""


def frames(seed: int) -> Iterator[Sent]:
    """Mutated frames, without an end."""
    rng = random.Random(f"{seed}/sockets")
    known = Known(cluster_id="unknown", brokers=[101, 102], configs=["retention.ms", "segment.bytes"])
    corpus = make_corpus(seed, known)
    broker = [each for each in corpus if each.listener is ListenerType.BROKER]
    controller = [each for each in corpus if each.listener is ListenerType.CONTROLLER]
    while True:
        is_controller = rng.random() < _CONTROLLER_SHARE
        entry = rng.choice(controller if is_controller else broker)
        frame = mutate(rng, entry.frame)
        if not is_effective(frame):
            yield Sent(entry.listener, rng.randrange(3), frame)


def is_effective(frame: bytes) -> bool:
    """Whether a frame is a valid request that may change what the well-behaved client depends on."""
    try:
        api_key, version, _, _, start = parse_request_header(memoryview(frame)[4:])
        if api_key not in _EFFECTIVE:
            return False
        message = request_messages()[api_key]
        if version not in message.SPEC.versions:
            return False
        codec.decode(message, frame[4:], version, start=start)
    except RemoteProtocolError:
        return False
    return True


class SocketFuzzer:
    """Delivers frames over some connections at once."""

    def __init__(
        self, ports: list[BrokerPorts], source: Iterator[Sent], count: int, connections: int = CONNECTIONS
    ) -> None:
        self.counts = Counts()
        self._ports = ports
        self._source = source
        self._connections = connections
        self._left = count
        self._total = count

    async def run(self) -> None:
        started = time.monotonic()
        workers = [asyncio.create_task(self._work()) for _ in range(self._connections)]
        shown = asyncio.create_task(self._show(started))
        await asyncio.gather(*workers)
        shown.cancel()
        typer.echo("", err=True)

    async def _show(self, started: float) -> None:
        while True:
            rate = self.counts.frames / max(time.monotonic() - started, 0.001)
            typer.echo(
                f"\r{self.counts.frames:,} of {self._total:,} frames, {rate:,.0f}/s", nl=False, err=True
            )
            await asyncio.sleep(_SHOWN_S)

    async def _work(self) -> None:
        """Send one frame after the other, on a connection as long as it is open."""
        stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        port = 0
        while self._left > 0:
            self._left -= 1
            sent = next(self._source)
            ports = self._ports[sent.node]
            wanted = ports.client if sent.listener is ListenerType.BROKER else ports.controller
            if stream is None or port != wanted:
                if stream is not None:
                    stream[1].close()
                port = wanted
                stream = await asyncio.open_connection("127.0.0.1", port)
                self.counts.connections += 1
            if not await self._exchange(sent, *stream):
                stream[1].close()
                stream = None
        if stream is not None:
            stream[1].close()

    async def _exchange(self, sent: Sent, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send a frame and wait for its response; returns whether the connection can be used again."""
        counts = self.counts
        counts.frames += 1
        counts.bytes += len(sent.frame)
        counts.by_api[int.from_bytes(sent.frame[4:6], "big")] += 1
        try:
            writer.write(sent.frame)
            async with asyncio.timeout(RESPONSE_S):
                await writer.drain()
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
        except TimeoutError:
            counts.waiting += 1
            return False
        except (OSError, asyncio.IncompleteReadError):
            counts.refused += 1
            return False
        counts.responded += 1
        return True


@dataclass
class Result:
    """What happened to the brokers and to the well-behaved client."""

    counts: Counts
    quiet: Latencies
    """Before the fuzzer started."""
    latencies: Latencies
    crashes: int
    failures: list[str]
    seconds: float
    memory: list[tuple[int, int]]
    """Resident bytes of each broker before and after."""

    @property
    def slow(self) -> int:
        found = self.latencies
        return sum(each > 1 for each in (*found.acknowledged, *found.delivered, *found.pings))

    @property
    def ok(self) -> bool:
        return not (self.crashes or self.failures or self.slow or self.latencies.errors)

    def text(self) -> str:
        counts, found = self.counts, self.latencies
        rows = [
            ("frames", f"{counts.frames:,} in {self.seconds:,.0f} s"),
            ("bytes", f"{counts.bytes:,}"),
            ("connections", f"{counts.connections:,}"),
            ("responses", f"{counts.responded:,}"),
            ("refused (connection closed)", f"{counts.refused:,}"),
            ("no response within 0.3 s", f"{counts.waiting:,}"),
            ("crashes of brokers", f"{self.crashes}"),
            ("unhandled exceptions", f"{len(self.failures)}"),
            ("errors of the client", f"{len(found.errors)}"),
            ("requests of the client over 1 s", f"{self.slow}"),
            ("acknowledgement, acks=all", percentiles(found.acknowledged)),
            ("  before the fuzzer started", percentiles(self.quiet.acknowledged)),
            ("producer to consumer", percentiles(found.delivered)),
            ("  before the fuzzer started", percentiles(self.quiet.delivered)),
            ("ping (ApiVersions)", percentiles(found.pings)),
            ("  before the fuzzer started", percentiles(self.quiet.pings)),
            ("memory of the brokers", ", ".join(f"{a >> 20} to {b >> 20} MiB" for a, b in self.memory)),
        ]
        width = max(len(name) for name, _ in rows)
        shown = [f"{name:<{width}}  {value}" for name, value in rows]
        shown += self.failures[:20]
        shown += sorted(set(found.errors))[:20]
        return "\n".join(shown)


def percentiles(values: list[float]) -> str:
    """The median, the 99th percentile and the maximum, in milliseconds."""
    if not values:
        return "nothing measured"
    ordered = sorted(values)
    p50, p99 = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
    return (
        f"{len(ordered):,} times: p50 {p50 * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms, "
        f"max {ordered[-1] * 1000:.1f} ms"
    )


def _resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:  # noqa: PTH123 - a file of the kernel
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def fuzz_cluster(count: int, seed: int, connections: int = CONNECTIONS) -> Result:
    """Start a cluster and the client, deliver the frames, and collect what happened."""
    context = get_context("spawn")
    with Cluster(3, proxies=False) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [NewTopic(CANARY, 3, 3, config={"min.insync.replicas": "2"})]
        topics += [NewTopic(name, 3, 3) for name in ("fuzz", "keyed")]
        for created in admin.create_topics(topics).values():
            created.result(30)
        pids = {node_id: broker.pid for node_id, broker in cluster.brokers.items()}
        before = [_resident_bytes(pid) for pid in pids.values()]
        ours, theirs = context.Pipe()
        client = context.Process(target=canary.run, args=(cluster.bootstrap, CANARY, theirs))
        client.start()
        time.sleep(QUIET_S)
        ours.send(None)
        fuzzer = SocketFuzzer(cluster._ports, frames(seed), count, connections)
        started = time.monotonic()
        asyncio.run(fuzzer.run())
        seconds = time.monotonic() - started
        ours.send(None)
        quiet, latencies = ours.recv()
        client.join()
        crashes = sum(
            not broker.running or broker.pid != pids[node_id] for node_id, broker in cluster.brokers.items()
        )
        after = [_resident_bytes(pid) for pid in pids.values()] if not crashes else before
        failures = [
            f"broker {node_id}: {line[:3000]}"
            for node_id, broker in cluster.brokers.items()
            for line in broker.output().splitlines()
            if _FAILED.search(line)
        ]
        memory = list(zip(before, after, strict=True))
        return Result(fuzzer.counts, quiet, latencies, crashes, failures, seconds, memory)


def run(
    frames: int = typer.Option(100_000, help="How many frames."),
    seed: int = typer.Option(1, help="The same seed gives the same frames."),
    connections: int = typer.Option(CONNECTIONS, help="How many connections at once."),
    apis: bool = typer.Option(True, help="Print the frames of each API."),
) -> None:
    """Send mutated frames over sockets to three brokers; ends with 1 if a broker or the client fails."""
    result = fuzz_cluster(frames, seed, connections)
    typer.echo(result.text())
    if apis:
        typer.echo(f"\nframes by API\n{by_api(result.counts)}")
    if not result.ok:
        raise typer.Exit(1)
