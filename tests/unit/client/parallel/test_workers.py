"""Threads and tasks: number of concurrent records, errors, and the end."""

from __future__ import annotations

import asyncio
import threading

import pytest
from confluent_kafka import Message

from ottla.base.errors import InvariantViolation
from ottla.client.parallel.dispatcher import Dispatcher
from ottla.client.parallel.options import Options, RetryPolicy
from ottla.client.parallel.workers import TaskWorkers, ThreadWorkers, Workers
from tests.support.waiting import TIMEOUT_S, wait_until
from tests.unit.client.parallel.fakes import add, dispatcher_of


def done(dispatcher: Dispatcher) -> int:
    with dispatcher.lock:
        return dispatcher.scheduler.progress().done


def test_the_configured_number_of_threads_runs_at_once() -> None:
    dispatcher, _, _ = dispatcher_of()
    together = threading.Barrier(5)
    workers = ThreadWorkers(dispatcher, lambda _message: together.wait(TIMEOUT_S), 5)
    workers.start()
    for offset in range(20):
        add(dispatcher, offset)
    wait_until(lambda: done(dispatcher) == 20, "all done, five by five")
    assert workers.end(TIMEOUT_S)


def test_the_configured_number_of_tasks_runs_at_once() -> None:
    dispatcher, _, _ = dispatcher_of()
    running = 0
    most = 0
    together = asyncio.Barrier(5)

    async def handle(_message: Message) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await together.wait()  # passes only five by five
        running -= 1

    workers = TaskWorkers(dispatcher, handle, 5, None)
    workers.start()
    for offset in range(100):
        add(dispatcher, offset)
    wait_until(lambda: done(dispatcher) == 100, "all done")
    assert workers.end(TIMEOUT_S)
    assert most == 5


def test_a_coroutine_that_never_waits_does_not_block_the_loop() -> None:
    dispatcher, _, _ = dispatcher_of()
    for offset in range(1_000):
        add(dispatcher, offset)
    turns = 0

    async def handle(_message: Message) -> None:
        pass

    async def program() -> None:
        nonlocal turns
        workers = TaskWorkers(dispatcher, handle, 1, asyncio.get_running_loop())
        workers.start()
        with dispatcher.lock:
            dispatcher.wake_workers_if_ready()
        while done(dispatcher) < 1_000:
            turns += 1
            await asyncio.sleep(0)
        assert await asyncio.to_thread(workers.end, TIMEOUT_S)

    asyncio.run(program())
    assert turns >= 10


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_worker_continues_after_an_error_of_the_handler(kind: str) -> None:
    dispatcher, _, _ = dispatcher_of(Options(retry=RetryPolicy(delay_first_s=0)))
    failed: list[int] = []

    def handle(message: Message) -> None:
        if not failed:
            failed.append(message.offset() or 0)
            raise ValueError

    async def handle_async(message: Message) -> None:
        handle(message)

    workers: Workers = (
        ThreadWorkers(dispatcher, handle, 1)
        if kind == "threads"
        else TaskWorkers(dispatcher, handle_async, 1, None)
    )
    workers.start()
    add(dispatcher, 0)
    add(dispatcher, 1)
    wait_until(lambda: done(dispatcher) == 2, "both done")
    assert workers.end(TIMEOUT_S)
    assert dispatcher.scheduler.progress().retried == 1


def test_a_blocked_task_is_cancelled_at_the_end_and_its_record_is_unfinished() -> None:
    dispatcher, _, _ = dispatcher_of()
    begun = threading.Event()
    cancelled = threading.Event()

    async def hang(_message: Message) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    workers = TaskWorkers(dispatcher, hang, 1, None)
    workers.start()
    add(dispatcher, 0)
    assert begun.wait(TIMEOUT_S)
    with dispatcher.lock:
        dispatcher.scheduler.drop(dispatcher.scheduler.partitions())
    assert not workers.end(0.01)
    assert cancelled.is_set()
    assert done(dispatcher) == 0
    assert dispatcher.failure is None


def test_a_blocked_thread_does_not_delay_the_end() -> None:
    dispatcher, _, _ = dispatcher_of()
    begun, release = threading.Event(), threading.Event()

    def hang(_message: Message) -> None:
        begun.set()
        release.wait(TIMEOUT_S)

    workers = ThreadWorkers(dispatcher, hang, 2)
    workers.start()
    add(dispatcher, 0)
    assert begun.wait(TIMEOUT_S)
    assert not workers.end(0.01)
    release.set()
    assert workers.end(TIMEOUT_S)


@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_bug_below_a_worker_ends_the_consumer(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dispatcher, _, _ = dispatcher_of()

    async def handle_async(_message: Message) -> None:
        pass

    workers: Workers = (
        ThreadWorkers(dispatcher, lambda _message: None, 1)
        if kind == "threads"
        else TaskWorkers(dispatcher, handle_async, 1, None)
    )

    def broken(*_: object) -> None:
        raise InvariantViolation("a bug")

    monkeypatch.setattr(dispatcher.scheduler, "finish", broken)
    workers.start()
    add(dispatcher, 0)
    wait_until(lambda: isinstance(dispatcher.failure, InvariantViolation), "the bug to be seen")
    workers.end(0.1)
