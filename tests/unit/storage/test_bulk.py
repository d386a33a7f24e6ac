from __future__ import annotations

from ottla.base.promise import Promise
from ottla.storage.bulk import CHUNK_ITEMS, WIDTH, Queue, in_order, run_bulk
from ottla.testing.executor import InlineExecutor


def test_items_are_worked_on_in_chunks_and_two_jobs_are_submitted_at_a_time() -> None:
    executor = InlineExecutor(stepped=True)
    handled: list[tuple[int, int | Exception]] = []
    done = run_bulk(
        executor, range(100), lambda item: item * 2, lambda item, result: handled.append((item, result))
    )
    steps = 0
    while executor.waiting:
        assert executor.waiting <= WIDTH
        assert len(handled) == min(100, steps * CHUNK_ITEMS)
        executor.step()
        steps += 1
    assert done.done
    assert handled == [(item, item * 2) for item in range(100)]


def test_nothing_to_do_is_done_at_once() -> None:
    assert run_bulk(InlineExecutor(stepped=True), (), lambda _: None, lambda _, __: None).done


def test_the_error_of_one_item_does_not_stop_the_others() -> None:
    handled: list[object] = []
    run_bulk(
        InlineExecutor(), [1, 0, 2], lambda item: 2 // item, lambda _, result: handled.append(result)
    ).result()
    assert [type(each) for each in handled] == [int, ZeroDivisionError, int]


def test_steps_run_in_their_order_and_end_at_the_first_error() -> None:
    order: list[str] = []
    first: Promise[None] = Promise()

    def step(name: str, promise: Promise[None]) -> Promise[None]:
        order.append(name)
        return promise

    failing: Promise[None] = Promise()
    failing.fail(ValueError("no"))
    finished = in_order(
        [lambda: step("a", first), lambda: step("b", failing), lambda: step("c", Promise.kept(None))]
    )
    assert order == ["a"]
    first.keep(None)
    assert order == ["a", "b"]
    assert isinstance(finished.error, ValueError)


def test_a_queue_starts_a_step_when_those_before_are_done_whether_or_not_they_failed() -> None:
    queue, order = Queue(), []
    first: Promise[None] = Promise()

    def wait() -> Promise[None]:
        order.append("first")
        return first

    def fail() -> Promise[None]:
        order.append("second")
        raise ValueError("no")

    def last() -> Promise[None]:
        order.append("third")
        return Promise.kept(None)

    queue.add(wait)
    second, third = queue.add(fail), queue.add(last)
    assert order == ["first"]
    first.fail(OSError("no"))
    assert order == ["first", "second", "third"]
    assert isinstance(second.error, ValueError)
    assert third.done
    assert third.error is None
