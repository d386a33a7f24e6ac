"""Sends played matches to a topic, at their own pace or faster: the match's name is the record's key.

Events are sent when their moment has come, counted from the first (`pace` "time"), so many a second whatever their
times (a number), or as fast as the cluster takes them (None). Runs on the caller's thread until the events end or
`stop` is set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from confluent_kafka import Producer

from ottla.base.clock import Clock
from ottla.base.errors import LocalError
from ottla.pipelines.generator import Arrival
from ottla.pipelines.match import encode

DELIVERY_S_MAX: Final = 30.0
EARLY_S_MAX: Final = 0.002
"""Shorter waits are not worth a system call: what is due within it is sent now."""


class Feed:
    """A producer of match events. Not thread-safe."""

    def __init__(
        self, bootstrap: str, topic: str, clock: Clock, settings: Mapping[str, str] | None = None
    ) -> None:
        self._topic, self._clock = topic, clock
        self.sent = 0
        self._lost: str | None = None
        self._producer = Producer(
            {
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 5,
                "partitioner": "murmur2_random",
                "log_level": 0,
                **(settings or {}),
                "bootstrap.servers": bootstrap,
            }
        )

    def play(
        self,
        arrivals: Iterable[Arrival],
        stop: threading.Event,
        *,
        pace: Literal["time"] | float | None = "time",
        told: Callable[[int], None] | None = None,
    ) -> int:
        """Sends them all, or until stopped; how many. Raises `LocalError` when one could not be delivered."""
        began_s, first_ms = self._clock.monotonic(), None
        for number, arrival in enumerate(arrivals):
            first_ms = arrival.time_ms if first_ms is None else first_ms
            if pace == "time":
                due_s = began_s + (arrival.time_ms - first_ms) / 1000
            else:
                due_s = began_s + (number / pace if pace else 0)
            if self._wait(due_s, stop):
                break
            self._send(arrival)
            if told is not None:
                told(self.sent)
        self.flush()
        return self.sent

    def _wait(self, due_s: float, stop: threading.Event) -> bool:
        """Until it is time; whether to stop instead."""
        left_s = due_s - self._clock.monotonic()
        return stop.wait(left_s) if left_s > EARLY_S_MAX else stop.is_set()

    def _send(self, arrival: Arrival) -> None:
        event = arrival.event
        while True:
            try:
                self._producer.produce(
                    self._topic, encode(event), key=event.match, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.1)  # the cluster is slower than we are
            else:
                break
        self._producer.poll(0)
        self.sent += 1
        self._check()

    def flush(self) -> None:
        left = self._producer.flush(DELIVERY_S_MAX)
        if left:
            raise LocalError(
                f"{left} events could not be delivered to topic {self._topic} in {DELIVERY_S_MAX:.0f} s"
            )
        self._check()

    def _delivered(self, error: object, _: object) -> None:
        if error is not None and self._lost is None:
            self._lost = str(error)

    def _check(self) -> None:
        if self._lost is not None:
            raise LocalError(f"an event could not be delivered to topic {self._topic}: {self._lost}")
