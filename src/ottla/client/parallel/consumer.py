"""A consumer that handles many records at once and keeps the order of each key.

The caller's thread polls (`run`); workers run the handler; they meet in the `exchange`, behind whose lock the
`scheduler` decides everything. The poll thread reads while there is room, commits at intervals, and keeps polling
whatever the handlers do, so the group never takes a slow handler for a dead member.

Crash policy: what was committed is done. Records finished above the committed offset are in its metadata and not
repeated; records finished since the last commit are: a handler must bear a record that comes twice.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Place

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.parallel.commits import Committer
from ottla.client.parallel.dead_letters import DeadLetters
from ottla.client.parallel.errors import ConsumerFailed
from ottla.client.parallel.exchange import Exchange
from ottla.client.parallel.membership import Membership
from ottla.client.parallel.options import Options
from ottla.client.parallel.progress import Progress
from ottla.client.parallel.refusals import failure_of
from ottla.client.parallel.scheduler import Scheduler
from ottla.client.parallel.settings import consumer_settings, dead_letter_settings, is_cooperative
from ottla.client.parallel.workers import AsyncHandler, Handler, TaskWorkers, ThreadWorkers, Workers

_log = logging.getLogger(__name__)
_IDLE_POLL_S = 0.1
_PAUSED_POLL_S = 0.02
_ROOM_PATIENCE_S = 0.1
_BATCH_MAX = 1_000
_END_TIMEOUT_S = 1.0


class ParallelConsumer:
    """`run` blocks until `stop` is called, from any thread or a signal handler, or until something fails.

    The handler is a plain function, run in threads, or a coroutine function, run in tasks of an event loop: the
    consumer's own, or `loop`. It gets a confluent_kafka.Message; when it returns the record is done, when it
    raises the record is tried again.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        topics: Sequence[str],
        handler: Handler | AsyncHandler,
        options: Options | None = None,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        dead_letter_producer: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if isinstance(topics, str) or not topics:
            raise LocalError("topics must be a list with at least one name, or '^' and a regular expression")
        self._options = options or Options()
        self._topics = list(topics)
        self._clock = clock or SystemClock()
        self._dead_letters: DeadLetters | None = None
        if self._options.dead_letter_topic is not None:
            producer = dead_letter_settings(settings, dead_letter_producer)
            group_id = str(settings.get("group.id"))
            self._dead_letters = DeadLetters(producer, self._options.dead_letter_topic, group_id)
        self._scheduler = Scheduler(self._options)
        self._exchange = Exchange(self._scheduler, self._clock, self._dead_letters)
        self._committer = Committer(self._exchange)
        self._membership = Membership(
            self._exchange,
            self._committer,
            cooperative=is_cooperative(settings),
            handover_timeout_s=self._options.handover_timeout_s,
        )
        self._workers = self._make_workers(handler, loop)
        self._consumer = Consumer(consumer_settings(settings, self._options, self._committer.answered))
        self._seeks: deque[tuple[TopicPartition, int]] = deque()
        self._next_commit = 0.0
        self._started = False
        self._stopping = False
        self._draining = True

    def run(self) -> None:
        """Consume. Returns after `stop`; raises what ended it otherwise."""
        if self._started:
            raise LocalError("a parallel consumer runs once: make a new one")
        self._started = True
        self._workers.start()
        if self._dead_letters is not None:
            self._dead_letters.start(self._exchange.dead_lettered, self._exchange.dead_letter_failed)
        try:
            self._consume()
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            self._exchange.fail(failure_of(cause) or ConsumerFailed(f"the consumer failed: {cause.str()}"))
        finally:
            self._end()
        if self._exchange.failure is not None:
            raise self._exchange.failure

    def stop(self, *, drain: bool = True) -> None:
        """Make `run` return. Drain: finish all that was read already; else only what handlers have in hand."""
        if not drain:
            self._draining = False
            self._exchange.halted = True
        self._stopping = True

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on from another offset of an assigned partition, soon. What was read before is forgotten."""
        self._seeks.append((TopicPartition(topic, partition), offset))

    def progress(self) -> Progress:
        """Figures of this moment."""
        with self._exchange.lock:
            return self._scheduler.progress()

    def _make_workers(
        self, handler: Handler | AsyncHandler, loop: asyncio.AbstractEventLoop | None
    ) -> Workers:
        call = getattr(handler, "__call__", None)  # noqa: B004 - an object may have a coroutine function for a call
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
            return TaskWorkers(self._exchange, cast(AsyncHandler, handler), self._options.workers, loop)
        if not callable(handler):
            raise LocalError("the handler must be a function or a coroutine function that takes a Message")
        if loop is not None:
            raise LocalError("loop is of use to a coroutine function only; this handler runs in threads")
        return ThreadWorkers(self._exchange, handler, self._options.workers)

    def _consume(self) -> None:
        self._consumer.subscribe(
            self._topics,
            on_assign=self._membership.assigned,
            on_revoke=self._membership.revoked,
            on_lost=self._membership.lost,
        )
        while self._exchange.failure is None and not self._stopping:
            self._read()
            self._serve()
        if self._exchange.failure is None and self._draining:
            self._drain()

    def _read(self) -> None:
        """One round of reading: make room, take what has come."""
        room, timeout_s = self._make_room()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return
        # Taken in before anything else is asked for, which may bring a rebalance.
        self._take_in([first])
        if room > 1:
            self._take_in(self._consumer.consume(min(room - 1, _BATCH_MAX), timeout=0))

    def _make_room(self) -> tuple[int, float]:
        """How many records may be read, and how long to wait for the first."""
        exchange, scheduler = self._exchange, self._scheduler
        with exchange.lock:
            waited = False
            if not scheduler.room():
                waited = not exchange.wait_for(
                    lambda: scheduler.is_roomy() or exchange.failure is not None or self._stopping,
                    _ROOM_PATIENCE_S,
                )
            pause, resume = scheduler.decide_pauses(waited=waited)
            room = scheduler.room()
            timeout_s = _PAUSED_POLL_S if scheduler.has_paused() else _IDLE_POLL_S
            retry = scheduler.next_retry()
            if retry is not None:
                timeout_s = min(timeout_s, max(0.0, retry - self._clock.monotonic()))
        if pause:
            self._consumer.pause([Place(*partition) for partition in pause])
        if resume:
            self._consumer.resume([Place(*partition) for partition in resume])
        return room, timeout_s

    def _take_in(self, messages: list[Message]) -> None:
        scheduler = self._scheduler
        refusals: list[KafkaError] = []
        with self._exchange.lock:
            for message in messages:
                place = cast(tuple[str, int], (message.topic(), message.partition()))
                offset = cast(int, message.offset())
                error = message.error()
                if error is None:
                    scheduler.add(place, offset, message.key(), message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    scheduler.advance(place, offset)
                else:
                    refusals.append(error)
            self._exchange.announce()
        for refusal in refusals:
            self._judge(refusal)

    def _judge(self, error: KafkaError) -> None:
        failure = failure_of(error)
        if failure is not None:
            self._exchange.fail(failure)
        else:
            _log.warning("the consumer goes on after: %s", error.str())

    def _serve(self) -> None:
        """What is due from time to time."""
        with self._exchange.lock:
            self._exchange.announce()
        for _ in range(len(self._seeks)):
            self._seek(*self._seeks.popleft())
        now = self._clock.monotonic()
        if now >= self._next_commit:
            self._next_commit = now + self._options.commit_interval_s
            self._committer.begin(self._consumer)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        with self._exchange.lock:
            is_ours = partition in self._scheduler.partitions()
        if not is_ours:
            _log.warning("%s is not assigned to this member: seek to %d is ignored", partition, offset)
            return
        try:
            self._consumer.seek(Place(*partition, offset))
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._seeks.append((partition, offset))  # it was assigned a moment ago and has not begun to fetch
            return
        with self._exchange.lock:
            self._scheduler.seek(partition, offset)

    def _drain(self) -> None:
        """Read no more, finish what was read; polling goes on for the group's sake."""
        self._membership.is_reading = False
        with self._exchange.lock:
            places = [Place(*partition) for partition in self._scheduler.partitions()]
        self._consumer.pause(places)
        deadline = self._clock.monotonic() + self._options.drain_timeout_s
        while self._draining and self._exchange.failure is None and self._clock.monotonic() < deadline:
            # What comes now, though paused, is not taken in: neither records nor the end that lies behind them.
            message = self._consumer.poll(_PAUSED_POLL_S)
            if (
                message is not None
                and (error := message.error())
                and error.code() != KafkaError._PARTITION_EOF
            ):
                self._judge(error)
            self._serve()
            with self._exchange.lock:
                if not self._scheduler.in_flight:
                    return

    def _end(self) -> None:
        """Hand everything over, end the workers, leave the group."""
        with self._exchange.lock:
            partitions = self._scheduler.partitions()
        self._membership.hand_over(self._consumer, partitions)
        if not self._workers.end(_END_TIMEOUT_S):
            _log.warning("handlers still run; their records are not finished and come again")
        self._consumer.close()
        if self._dead_letters is not None:
            self._dead_letters.close(_END_TIMEOUT_S)
