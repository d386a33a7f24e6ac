"""A producer that sends generated match events to a topic, with the name of the match as the record's key.

`pace` decides when an event is sent: "time" sends it at its own time, relative to the first event; a number sends so
many events per second; None sends as fast as the cluster accepts them. Runs on the caller's thread until the events
end or `stop` is set.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from confluent_kafka import Producer

from ottla.scoreboard.generator import Arrival
from ottla.scoreboard.match import encode

DELIVERY_S_MAX: Final = 30.0
EARLY_S_MAX: Final = 0.002
"""An event that is due within this time is sent now: a shorter wait is not worth a system call."""


class DeliveryFailed(Exception):
    """An event could not be delivered to the topic."""


class Feed:
    """A producer of match events, with settings of librdkafka. Not thread-safe."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        settings: Mapping[str, str] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._topic, self._monotonic = topic, monotonic
        self.sent = 0
        self._failure: str | None = None
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
        on_sent: Callable[[int], None] | None = None,
    ) -> int:
        """Send the events until they end or `stop` is set; return how many were sent.

        Raises `DeliveryFailed` if an event could not be delivered. `on_sent` gets the number of events sent so far.
        """
        began_s, first_ms = self._monotonic(), None
        for number, arrival in enumerate(arrivals):
            first_ms = arrival.time_ms if first_ms is None else first_ms
            if pace == "time":
                due_s = began_s + (arrival.time_ms - first_ms) / 1000
            else:
                due_s = began_s + (number / pace if pace else 0)
            if self._wait(due_s, stop):
                break
            self._send(arrival)
            if on_sent is not None:
                on_sent(self.sent)
        self.flush()
        return self.sent

    def _wait(self, due_s: float, stop: threading.Event) -> bool:
        """Wait until `due_s`; return True if `stop` was set instead."""
        left_s = due_s - self._monotonic()
        return stop.wait(left_s) if left_s > EARLY_S_MAX else stop.is_set()

    def _send(self, arrival: Arrival) -> None:
        event = arrival.event
        while True:
            try:
                self._producer.produce(
                    self._topic, encode(event), key=event.match, on_delivery=self._on_delivery
                )
            except BufferError:
                self._producer.poll(0.1)  # the producer's queue is full: wait for deliveries
            else:
                break
        self._producer.poll(0)
        self.sent += 1
        self._check()

    def flush(self) -> None:
        """Wait until all events are delivered."""
        left = self._producer.flush(DELIVERY_S_MAX)
        if left:
            raise DeliveryFailed(
                f"{left} events could not be delivered to topic {self._topic} in {DELIVERY_S_MAX:.0f} s"
            )
        self._check()

    def _on_delivery(self, error: object, _: object) -> None:
        if error is not None and self._failure is None:
            self._failure = str(error)

    def _check(self) -> None:
        if self._failure is not None:
            raise DeliveryFailed(f"an event could not be delivered to topic {self._topic}: {self._failure}")
