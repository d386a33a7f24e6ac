"""Requests that a hostile client could send: well-formed ones full of edge values, and bytes that are not.

Everything is drawn from one seeded generator, so that a failing run can be played again. Names of topics and
their ids come from the caller: real ones make requests reach the code behind the checks.
"""

from __future__ import annotations

import random
import uuid
from typing import Any

from ottla.broker.handlers import load_all
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.wire.frames import request_frame
from ottla.wire.messages import fetch, produce, sasl_authenticate, sasl_handshake
from ottla.wire.schema import Field, Message, fields_of

NOW_MS = 1_760_000_000_000
BAD_NAMES = (
    "",
    ".",
    "..",
    "../escaped",
    "../../escaped",
    "/tmp/escaped",  # noqa: S108 - a name that must never become a path
    "a/../../escaped",
    "..\\escaped",
    "nul\0nul",
    "line\nlevel='critical' event='forged'",
    "é",
    "\ud7ff\uffff",
    "x" * 249,
    "x" * 250,
    "y" * 3000,
    "__cluster_metadata",
    "escaped.log",
    "__consumer_offsets",
)
CONFIGS = (
    "retention.ms",
    "cleanup.policy",
    "compression.type",
    "segment.bytes",
    "flush.messages",
    "log.retention.ms",
    "background.threads",
    "advertised.listeners",
    "log.cleaner.threads",
    "min.insync.replicas",
    "leader.replication.throttled.replicas",
    "nonsense",
)
VALUES = (
    "",
    "1",
    "-1",
    "0",
    "1000",
    "compact",
    "delete,compact",
    "gzip",
    "x" * 3000,
    "9" * 30,
    "é\n",
    "1:1,2:2",
)
_EDGES = {
    "int8": (-128, -1, 0, 1, 2, 3, 4, 127),
    "int16": (-(2**15), -1, 0, 1, 2, 2**15 - 1),
    "uint16": (0, 1, 2**16 - 1),
    "int32": (-(2**31), -1, 0, 0, 1, 1, 2, 1000, 2**31 - 1),
    "uint32": (0, 1, 2**32 - 1),
    "int64": (-(2**63), -5, -4, -3, -2, -1, 0, 0, 1, 2, NOW_MS, 2**63 - 1),
    "float64": (0.0, -1.0, float("inf"), float("nan")),
}
# How long the broker may hold the answer back is the client's choice: the fuzzer has no time to wait.
_WAITS = {"max_wait_ms": (0, 0, -1, 5), "timeout_ms": (-1, 0, 1, 5000), "min_bytes": (0, 1, -1, 2**31 - 1)}


class RequestMaker:
    """Draws requests for every API and version the broker serves."""

    def __init__(self, rng: random.Random, topics: dict[str, uuid.UUID]) -> None:
        self._rng = rng
        self._names = list(topics)
        self._ids = list(topics.values())
        classes: dict[int, type[Message]] = {
            0: produce.ProduceRequest,
            1: fetch.FetchRequest,
            17: sasl_handshake.SaslHandshakeRequest,
            36: sasl_authenticate.SaslAuthenticateRequest,
        }
        self.targets: list[tuple[type[Message], int]] = []
        for route in sorted(load_all(), key=lambda each: each.api_key):
            message = route.request or classes[route.api_key]
            self.targets += [
                (message, version) for version in range(route.versions[0], route.versions[1] + 1)
            ]

    def frame(self, message: type[Message], version: int, client_id: str | None = "hostile") -> bytes:
        """A request whose structure is sound."""
        return request_frame(self.message(message, version), version, 7, client_id)

    def message(self, message: type[Message], version: int) -> Any:
        made = message()
        for field in fields_of(message):
            unspeakable = getattr(made, field.name) is None and version not in field.wire.nullable
            if unspeakable or (version in field.wire.versions and self._rng.random() < 0.95):
                setattr(made, field.name, self._value(field, version))
        return made

    def _value(self, field: Field, version: int) -> Any:
        rng = self._rng
        if version in field.wire.nullable and rng.random() < 0.15:
            return None
        if not field.is_array:
            return self._element(field, version)
        count = rng.choice((0, 1, 1, 1, 2, 3))
        made = [self._element(field, version) for _ in range(count)]
        if made and rng.random() < 0.2:
            made += made[:1]  # the same entry twice
        return made

    def _element(self, field: Field, version: int) -> Any:
        rng, kind = self._rng, field.element_kind
        if field.struct is not None:
            return self.message(field.struct, version)
        if field.name in _WAITS:
            return rng.choice(_WAITS[field.name])
        if kind in _EDGES:
            return rng.choice(_EDGES[kind])
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "uuid":
            return rng.choice([*self._ids, uuid.UUID(int=0), uuid.UUID(int=1), uuid.UUID(int=2**128 - 1)])
        if kind == "string":
            return self._text(field.name)
        if kind == "records":
            return self._records()
        return rng.randbytes(rng.choice((0, 1, 100)))

    def _text(self, name: str) -> str:
        rng = self._rng
        if rng.random() < 0.6:
            return rng.choice(self._names)
        if rng.random() < 0.5:
            return rng.choice(VALUES if "value" in name else CONFIGS)
        return rng.choice(BAD_NAMES)

    def _records(self) -> bytes:
        rng = self._rng
        records = [NewRecord(b"k", rng.randbytes(rng.randrange(50)), (), NOW_MS) for _ in range(3)]
        batch = bytearray(
            build_batch(
                records,
                codec=rng.choice(list(Codec)),
                **rng.choice(({}, {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0})),
            )
        )
        if rng.random() < 0.5:
            batch[rng.randrange(len(batch))] ^= 1 << rng.randrange(8)
        return bytes(batch * rng.choice((1, 1, 1, 2)))

    def mutated(self, frame: bytes) -> bytes:
        """A frame with a few bytes changed, added or missing, but a size that is right."""
        rng, body = self._rng, bytearray(frame[4:])
        for _ in range(rng.choice((1, 1, 2, 4))):
            # The first bytes say which API this is: mostly leave them alone.
            place = rng.randrange(min(4, len(body)), len(body)) if rng.random() < 0.95 else rng.randrange(4)
            match rng.randrange(4):
                case 0:
                    body[place] = rng.choice((0, 1, 2, 0x7E, 0x7F, 0x80, 0xFE, 0xFF))
                case 1:
                    body[place:place] = rng.randbytes(rng.randrange(1, 9))
                case 2:
                    del body[place : place + rng.randrange(1, 9)]
                case _:
                    body[place : place + 4] = rng.choice(
                        (b"\x7f\xff\xff\xff", b"\xff" * 4, b"\x80" + bytes(3))
                    )
            if len(body) < 5:
                break
        return len(body).to_bytes(4, "big") + bytes(body)
