"""Throws mutated frames at the request decoder: `python -m fuzz.frame_decoder [--seconds 30] [--seed 1]`.

Any bytes are decoded or refused with RemoteProtocolError, within the memory budget, and what was decoded can
be written and means the same. A failure prints the seed and the bytes. `decode_frame` is also a target for
atheris, and hypothesis feeds it in tests/property/test_codec_roundtrip.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time

from fuzz.frames.corpus import request_messages
from ottla.base.errors import LocalError, RemoteProtocolError
from ottla.wire import codec, frames
from ottla.wire.schema import Message

EDGES = (0, 1, 2, 0x7E, 0x7F, 0x80, 0xFE, 0xFF)


def decode_frame(frame: bytes) -> Message | None:
    """The request in a frame, or None if it is refused; anything else that happens is a bug."""
    try:
        api_key, version, _, _, start = frames.parse_request_header(memoryview(frame))
        message = request_messages().get(api_key)
        if message is None or version not in message.SPEC.versions:
            return None
        budget = codec.Budget(len(frame))
        request = codec.decode(message, frame, version, budget=budget, start=start)
    except RemoteProtocolError:
        return None
    if budget.spent > budget.granted:
        raise AssertionError(f"{budget.spent} bytes spent of {budget.granted}")
    # What was read can be written, and means the same.
    again = codec.decode(message, codec.encode(request, version), version)
    if again != request:
        raise AssertionError(f"{request} was written as {again}")
    return request


def make_frame(rng: random.Random) -> bytearray:
    """A sound request without its size, all fields at their defaults."""
    message = rng.choice(list(request_messages().values()))
    while True:
        try:
            return bytearray(
                frames.request_frame(message(), rng.choice(message.SPEC.versions), 1, "fuzz")[4:]
            )
        except LocalError:
            # A few versions cannot say a default, such as a null that came later.
            message = rng.choice(list(request_messages().values()))


def mutate(rng: random.Random, frame: bytearray) -> bytes:
    """A few changes of the kinds that break parsers."""
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        place = rng.randrange(len(frame) + 1)
        match rng.randrange(4):
            case 0:
                frame[place : place + 1] = bytes((rng.choice(EDGES),))
            case 1:
                frame[place:place] = bytes(rng.choice(EDGES) for _ in range(rng.randrange(1, 40)))
            case 2:
                del frame[place : place + rng.randrange(1, 12)]
            case _:
                frame[place:place] = frame[place:]
    return bytes(frame)


def main() -> int:
    """Run until the time is over or a promise is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    seed, decoded, tried = options.seed, 0, 0
    while time.monotonic() < deadline:
        rng = random.Random(seed)
        frame = mutate(rng, make_frame(rng))
        try:
            decoded += decode_frame(frame) is not None
        except Exception:
            print(f"seed {seed}: {frame.hex()}", file=sys.stderr)
            raise
        tried += 1
        seed += 1
    print(f"{tried} frames, {decoded} decoded, {tried - decoded} refused, last seed {seed - 1}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
