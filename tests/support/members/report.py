"""What the programs of all clients share: their settings, the lines they write, the sign to leave."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    group: str
    topic: str
    names: list[str]
    protocol: str
    session_ms: int
    heartbeat_ms: int

    @staticmethod
    def from_arguments() -> Settings:
        return Settings(**json.loads(sys.argv[1]))


@dataclass(frozen=True)
class Report:
    """Says what one member does. A line is one write: writers share the file."""

    member: str

    def say(self, event: str, **facts: object) -> None:
        line = json.dumps({"member": self.member, "event": event, **facts})
        os.write(sys.stdout.fileno(), line.encode() + b"\n")

    def assigned(self, partitions: Iterable[int], generation: int | None = None) -> None:
        fields = {} if generation is None else {"generation": generation}
        self.say("assigned", partitions=sorted(partitions), **fields)

    def revoked(self, partitions: Iterable[int]) -> None:
        self.say("revoked", partitions=sorted(partitions))

    def lost(self, partitions: Iterable[int]) -> None:
        self.say("lost", partitions=sorted(partitions))

    def processed(self, offsets: dict[int, list[int]]) -> None:
        for partition, done in offsets.items():
            self.say("processed", partition=partition, offsets=done)

    def committed(self, offsets: dict[int, list[int]]) -> None:
        for partition, done in offsets.items():
            self.say("committed", partition=partition, offset=done[-1] + 1)

    def refused(self, error: object) -> None:
        self.say("refused", error=str(error))

    def closed(self) -> None:
        self.say("closed")


def leave_sign() -> threading.Event:
    """Set when standard input ends."""
    sign = threading.Event()

    def wait() -> None:
        sys.stdin.buffer.read()
        sign.set()

    threading.Thread(target=wait, daemon=True).start()
    return sign


class Runnable(Protocol):
    def run(self) -> None: ...


def run_in_threads(member: Callable[[str, Settings, threading.Event], Runnable]) -> None:
    """Make the members that the arguments name and let each run in a thread until it has left."""
    settings = Settings.from_arguments()
    leave = leave_sign()
    threads = [threading.Thread(target=member(name, settings, leave).run) for name in settings.names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
