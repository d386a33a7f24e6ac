"""Failures of the fuzzer as files: the frames that cause one, minimised, and the command that repeats it.

A failure is repeated on a new cluster. First the frame that was being handled is tried alone, then the frames of its
turn, then all frames of its round up to then; the shortest of these that fails is made shorter: fewer frames, then
fewer bytes of the last one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from fuzz.frames.engine import Engine, Found, Sent, brokers_of, round_frames
from fuzz.frames.target import Failure, Stage, Target
from ottla.broker.net.listeners import ListenerType

_ATTEMPTS_MAX: Final = 60
_TURNS_AFTER: Final = 50


def signature(failure: Failure) -> str:
    """What two failures with the same cause have in common: kind, and last line without numbers and texts."""
    last = next((line for line in reversed(failure.detail.splitlines()) if line.strip()), "")
    return f"{failure.kind}: {re.sub(r'[0-9]+', 'N', last)[:200]}"


def run_frames(frames: Sequence[Sent], brokers: int) -> list[Found]:
    """Deliver frames to a new cluster, each in its turn."""
    target = Target(brokers)
    engine = Engine(target)
    try:
        for sent in frames:
            engine.run(iter([sent]), 1)
        for _ in range(_TURNS_AFTER):
            target.turn()
        engine.collect()
    finally:
        target.close()
    return engine.found


class Minimiser:
    """Finds a short sequence of frames that causes the failure `wanted`."""

    def __init__(self, wanted: str, brokers: int) -> None:
        self._wanted = wanted
        self._brokers = brokers
        self._attempts = 0

    def fails(self, frames: Sequence[Sent]) -> bool:
        if self._attempts >= _ATTEMPTS_MAX:
            return False
        self._attempts += 1
        return any(signature(each.failure) == self._wanted for each in run_frames(frames, self._brokers))

    def minimise(self, candidates: Sequence[Sequence[Sent]]) -> list[Sent] | None:
        """The first of the candidates that fails, made shorter; None if none does."""
        found = next((list(frames) for frames in candidates if frames and self.fails(frames)), None)
        if found is None:
            return None
        found = self._fewer(found)
        return self._shorter(found)

    def _fewer(self, frames: list[Sent]) -> list[Sent]:
        size = len(frames) // 2
        while size:
            start = 0
            while start < len(frames) and len(frames) > 1:
                rest = frames[:start] + frames[start + size :]
                if rest and self.fails(rest):
                    frames = rest
                else:
                    start += size
            size //= 2
        return frames

    def _shorter(self, frames: list[Sent]) -> list[Sent]:
        *before, last = frames
        size = (len(last.frame) - 4) // 2
        while size > 4:
            start = 14
            while start < len(last.frame):
                body = last.frame[4:start] + last.frame[start + size :]
                tried = last._replace(frame=len(body).to_bytes(4, "big") + body)
                if self.fails([*before, tried]):
                    last = tried
                else:
                    start += size
            size //= 2
        return [*before, last]


def save(folder: Path, found: Found, seed: int, number: int) -> Path:
    """Minimise a failure and write it to a file; returns the path of the file."""
    brokers, wanted = brokers_of(number), signature(found.failure)
    candidates: list[Sequence[Sent]] = [[found.sent] if found.sent is not None else [], found.turn]
    candidates.append(list(islice(round_frames(seed, number), found.position)))
    frames = Minimiser(wanted, brokers).minimise(candidates)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}-round-{number}-{abs(hash(wanted)) % 10_000:04}.json"
    content = {
        "signature": wanted,
        "detail": found.failure.detail,
        "brokers": brokers,
        "seed": seed,
        "round": number,
        "position": found.position,
        "reproduced": frames is not None,
        "frames": [
            [sent.listener.value, sent.node, sent.frame.hex(), sent.stage and sent.stage.value]
            for sent in frames or candidates[0] or found.turn
        ],
    }
    path.write_text(json.dumps(content, indent=1))
    return path


def replay(path: Path) -> list[Found]:
    """Run the frames of a file; returns what they cause."""
    content = json.loads(path.read_text())
    frames = [
        Sent(ListenerType(listener), node, bytes.fromhex(frame), stage and Stage(stage))
        for listener, node, frame, stage in content["frames"]
    ]
    return run_frames(frames, content["brokers"])
