"""Consumer that handles many records at once and keeps the order of records with the same key.

The thread of the caller polls (`run`), workers run the handler. Both use the `dispatcher`, whose lock protects the
`scheduler`, which makes all decisions. The poll thread reads while there is room, commits at intervals, and polls
even if handlers are slow, so that the group coordinator does not remove this member.

Crash policy: committed records are done. Records finished above the committed offset are listed in its metadata and
are not repeated. Records finished since the last commit are repeated: a handler must tolerate duplicates.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as PartitionOffset

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import LocalError
from ottla.base.ids import TopicPartition
from ottla.client.parallel.dead_letters import DeadLetters
from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.errors import ConsumerFailed
from ottla.client.parallel.fatal_errors import fatal_error
from ottla.client.parallel.membership import Membership
from ottla.client.parallel.offset_committer import OffsetCommitter
from ottla.client.parallel.options import Options
from ottla.client.parallel.progress import Progress
from ottla.client.parallel.scheduler import Scheduler
from ottla.client.parallel.settings import consumer_settings, dead_letter_settings, is_cooperative
from ottla.client.parallel.workers import AsyncHandler, Handler, TaskWorkers, ThreadWorkers, Workers

_log = logging.getLogger(__name__)
_IDLE_POLL_S = 0.1
_PAUSED_POLL_S = 0.02
_ROOM_TIMEOUT_S = 0.1
_BATCH_MAX = 1_000
_END_TIMEOUT_S = 1.0


class ParallelConsumer:
    """`run` blocks until `stop` is called, from any thread or a signal handler, or until an error occurs.

    The handler is a function, which runs in threads, or a coroutine function, which runs in tasks of an event loop: a
    separate one, or `loop`. It gets a confluent_kafka.Message. A record is done when the handler returns, and is
    retried when it raises an exception.
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
        self._dispatcher = Dispatcher(self._scheduler, self._clock, self._dead_letters)
        self._committer = OffsetCommitter(self._dispatcher)
        self._membership = Membership(
            self._dispatcher,
            self._committer,
            cooperative=is_cooperative(settings),
            handover_timeout_s=self._options.handover_timeout_s,
        )
        self._workers = self._make_workers(handler, loop)
        self._consumer = Consumer(consumer_settings(settings, self._options, self._committer.on_commit))
        self._seeks: deque[tuple[TopicPartition, int]] = deque()
        self._next_commit = 0.0
        self._started = False
        self._stopping = False
        self._draining = True

    def run(self) -> None:
        """Consume. Return after `stop`; raise the error that ended it otherwise."""
        if self._started:
            raise LocalError("a parallel consumer runs once: create a new one")
        self._started = True
        self._workers.start()
        if self._dead_letters is not None:
            self._dead_letters.start(self._dispatcher.dead_lettered, self._dispatcher.dead_letter_failed)
        try:
            self._consume()
        except KafkaException as error:
            cause: KafkaError = error.args[0]
            self._dispatcher.fail(fatal_error(cause) or ConsumerFailed(f"the consumer failed: {cause.str()}"))
        finally:
            self._end()
        if self._dispatcher.failure is not None:
            raise self._dispatcher.failure

    def stop(self, *, drain: bool = True) -> None:
        """Make `run` return. With `drain`, finish all records that were read; otherwise only running handlers."""
        if not drain:
            self._draining = False
            self._dispatcher.halted = True
        self._stopping = True

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at another offset of an assigned partition, soon. Records read before are dropped."""
        self._seeks.append((TopicPartition(topic, partition), offset))

    def progress(self) -> Progress:
        """Current counters and offsets."""
        with self._dispatcher.lock:
            return self._scheduler.progress()

    def _make_workers(
        self, handler: Handler | AsyncHandler, loop: asyncio.AbstractEventLoop | None
    ) -> Workers:
        call = getattr(handler, "__call__", None)  # noqa: B004 - an object may have a coroutine function for a call
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call):
            return TaskWorkers(self._dispatcher, cast(AsyncHandler, handler), self._options.workers, loop)
        if not callable(handler):
            raise LocalError("the handler must be a function or a coroutine function that takes a Message")
        if loop is not None:
            raise LocalError(
                "loop requires a coroutine function; this handler is a plain function and runs in threads"
            )
        return ThreadWorkers(self._dispatcher, handler, self._options.workers)

    def _consume(self) -> None:
        self._consumer.subscribe(
            self._topics,
            on_assign=self._membership.on_assigned,
            on_revoke=self._membership.on_revoked,
            on_lost=self._membership.on_lost,
        )
        while self._dispatcher.failure is None and not self._stopping:
            self._read()
            self._serve()
        if self._dispatcher.failure is None and self._draining:
            self._drain()

    def _read(self) -> None:
        """Read once: wait for room, then add the available records."""
        room, timeout_s = self._make_room()
        first = self._consumer.poll(timeout_s)
        if first is None:
            return
        # Add it before the next call of librdkafka, which may trigger a rebalance.
        self._add_messages([first])
        if room > 1:
            self._add_messages(self._consumer.consume(min(room - 1, _BATCH_MAX), timeout=0))

    def _make_room(self) -> tuple[int, float]:
        """The number of records that may be read, and the time to wait for the first."""
        dispatcher, scheduler = self._dispatcher, self._scheduler
        with dispatcher.lock:
            waited = False
            if not scheduler.room():
                waited = not dispatcher.wait_for(
                    lambda: scheduler.has_room() or dispatcher.failure is not None or self._stopping,
                    _ROOM_TIMEOUT_S,
                )
            pause, resume = scheduler.decide_pauses(waited=waited)
            room = scheduler.room()
            timeout_s = _PAUSED_POLL_S if scheduler.has_paused() else _IDLE_POLL_S
            retry = scheduler.next_retry()
            if retry is not None:
                timeout_s = min(timeout_s, max(0.0, retry - self._clock.monotonic()))
        if pause:
            self._consumer.pause([PartitionOffset(*partition) for partition in pause])
        if resume:
            self._consumer.resume([PartitionOffset(*partition) for partition in resume])
        return room, timeout_s

    def _add_messages(self, messages: list[Message]) -> None:
        scheduler = self._scheduler
        errors: list[KafkaError] = []
        with self._dispatcher.lock:
            for message in messages:
                entry = cast(tuple[str, int], (message.topic(), message.partition()))
                offset = cast(int, message.offset())
                error = message.error()
                if error is None:
                    scheduler.add(entry, offset, message.key(), message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    scheduler.advance(entry, offset)
                else:
                    errors.append(error)
            self._dispatcher.wake_workers_if_ready()
        for error in errors:
            self._check_error(error)

    def _check_error(self, error: KafkaError) -> None:
        failure = fatal_error(error)
        if failure is not None:
            self._dispatcher.fail(failure)
        else:
            _log.warning("the consumer continues after the error: %s", error.str())

    def _serve(self) -> None:
        """Wake workers, seek, and commit if the interval has passed."""
        with self._dispatcher.lock:
            self._dispatcher.wake_workers_if_ready()
        for _ in range(len(self._seeks)):
            self._seek(*self._seeks.popleft())
        now = self._clock.monotonic()
        if now >= self._next_commit:
            self._next_commit = now + self._options.commit_interval_s
            self._committer.begin(self._consumer)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        with self._dispatcher.lock:
            is_ours = partition in self._scheduler.partitions()
        if not is_ours:
            _log.warning("%s is not assigned to this member: seek to %d is ignored", partition, offset)
            return
        try:
            self._consumer.seek(PartitionOffset(*partition, offset))
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE:
                raise
            self._seeks.append((partition, offset))  # librdkafka has not started to fetch the new partition
            return
        with self._dispatcher.lock:
            self._scheduler.seek(partition, offset)

    def _drain(self) -> None:
        """Stop reading and finish the records that were read; keep polling to stay in the group."""
        self._membership.is_reading = False
        with self._dispatcher.lock:
            offsets = [PartitionOffset(*partition) for partition in self._scheduler.partitions()]
        self._consumer.pause(offsets)
        deadline = self._clock.monotonic() + self._options.drain_timeout_s
        while self._draining and self._dispatcher.failure is None and self._clock.monotonic() < deadline:
            # Records and end-of-partition events that still arrive are not added.
            message = self._consumer.poll(_PAUSED_POLL_S)
            if (
                message is not None
                and (error := message.error())
                and error.code() != KafkaError._PARTITION_EOF
            ):
                self._check_error(error)
            self._serve()
            with self._dispatcher.lock:
                if not self._scheduler.in_flight:
                    return

    def _end(self) -> None:
        """Release all partitions, stop the workers, leave the group."""
        with self._dispatcher.lock:
            partitions = self._scheduler.partitions()
        self._membership.release(self._consumer, partitions)
        if not self._workers.end(_END_TIMEOUT_S):
            _log.warning(
                "handlers are still running; their records are not committed and will be delivered again"
            )
        self._consumer.close()
        if self._dead_letters is not None:
            self._dead_letters.close(_END_TIMEOUT_S)
