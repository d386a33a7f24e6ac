"""One suite for both writers: the compiled threads, and the reference over Python threads."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from ottla.base.clock import SystemClock
from ottla.base.executor import ThreadExecutor
from ottla.base.files import Buffer, OsDisk, OsFile
from ottla.base.writer import ExecutorWriter, NativeWriter
from tests.support.waiting import wait_until

Writer = ExecutorWriter | NativeWriter
TIMEOUT_S = 20


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


@pytest.fixture(params=["native", "reference"])
def writer(request: pytest.FixtureRequest, loop: asyncio.AbstractEventLoop) -> Iterator[Writer]:
    executor = ThreadExecutor(loop.call_soon_threadsafe, 2)
    if request.param == "native":
        pytest.importorskip("ottla.base._writer", reason="the kernel is not compiled")
        made: Writer = NativeWriter(loop.add_reader, SystemClock(), 2)
    else:
        made = ExecutorWriter(executor)
    yield made
    made.close()
    executor.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OsFile]:
    made = OsDisk().open(str(tmp_path / "file"), create=True)
    yield made
    made.close()


Write = Callable[[list[Buffer], int, bool], BaseException | None]


@pytest.fixture
def write(writer: Writer, file: OsFile, loop: asyncio.AbstractEventLoop) -> Write:
    """Write and wait for the report."""

    def call(buffers: list[Buffer], position: int, sync: bool) -> BaseException | None:
        answer: asyncio.Future[BaseException | None] = loop.create_future()
        writer.write(file, buffers, position, sync, answer.set_result)
        return loop.run_until_complete(asyncio.wait_for(answer, TIMEOUT_S))

    return call


@pytest.mark.parametrize("sync", [False, True])
@pytest.mark.parametrize("count", [1, 3, 1024, 2500])
def test_every_byte_of_every_buffer_is_written_in_order(
    write: Write, file: OsFile, count: int, sync: bool
) -> None:
    kinds = [bytes, bytearray, lambda made: memoryview(bytearray(made))]
    pieces = [os.urandom(number % 97) for number in range(count)]
    buffers = [kinds[number % 3](piece) for number, piece in enumerate(pieces)]

    assert write(buffers, 11, sync) is None

    expected = b"".join(pieces)
    assert file.pread(1 << 20, 0) == (bytes(11) + expected if expected else b"")


def test_large_writes(write: Write, file: OsFile) -> None:
    data = os.urandom(3_000_000)
    assert write([data[:100], memoryview(data)[100:]], 0, False) is None
    assert file.pread(len(data) + 1, 0) == data


@pytest.mark.parametrize("size", [10, 1_000_000])
@pytest.mark.parametrize("sync", [False, True])
def test_a_failure_is_reported_with_its_number(write: Write, file: OsFile, size: int, sync: bool) -> None:
    reading = os.open(file.path, os.O_RDONLY)
    os.dup2(reading, file.fileno())
    os.close(reading)

    failure = write([bytes(size)], 0, sync)

    assert isinstance(failure, OSError)
    assert failure.errno == errno.EBADF


def test_many_writes_are_each_reported_once(
    writer: Writer, file: OsFile, loop: asyncio.AbstractEventLoop
) -> None:
    reported: list[int] = []
    everything = loop.create_future()

    def done(number: int, failure: BaseException | None) -> None:
        assert failure is None
        reported.append(number)
        if len(reported) == 200:
            everything.set_result(None)

    for number in range(200):
        data = bytes([number]) * 50
        writer.write(file, [data], number * 50, True, lambda failure, number=number: done(number, failure))
    loop.run_until_complete(asyncio.wait_for(everything, TIMEOUT_S))

    assert sorted(reported) == list(range(200))
    assert file.pread(20_000, 0) == b"".join(bytes([number]) * 50 for number in range(200))


def test_the_compiled_threads_hold_a_buffer_until_it_is_reported(
    file: OsFile, loop: asyncio.AbstractEventLoop
) -> None:
    pytest.importorskip("ottla.base._writer", reason="the kernel is not compiled")
    writer = NativeWriter(loop.add_reader, SystemClock(), 2)
    answer = loop.create_future()
    data = bytearray(os.urandom(500_000))
    writer.write(file, [data], 0, True, answer.set_result)
    with pytest.raises(BufferError):
        data.clear()
    loop.run_until_complete(asyncio.wait_for(answer, TIMEOUT_S))
    data.clear()
    writer.close()


def test_an_exception_of_one_report_does_not_lose_the_others(
    writer: Writer, file: OsFile, loop: asyncio.AbstractEventLoop
) -> None:
    reported: list[int] = []
    exceptions: list[object] = []
    everything = loop.create_future()
    loop.set_exception_handler(lambda _, context: exceptions.append(context["exception"]))

    def done(number: int, _: BaseException | None) -> None:
        reported.append(number)
        if len(reported) == 20:
            everything.set_result(None)
        raise ValueError(number)

    for number in range(20):
        writer.write(file, [b"x"], number, True, partial(done, number))
    wait_until(lambda: file.pread(30, 0) == b"x" * 20, "all writes")
    loop.run_until_complete(asyncio.wait_for(everything, TIMEOUT_S))
    assert sorted(reported) == list(range(20))
    loop.run_until_complete(asyncio.sleep(0))
    assert len(exceptions) == 20
