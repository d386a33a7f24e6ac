"""Invalid arguments of a parallel consumer."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Message

from ottla.base.errors import LocalError
from ottla.client.parallel import Options, ParallelConsumer

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "log_level": 0}


def handle(_message: Message) -> None: ...


async def handle_async(_message: Message) -> None: ...


class Handling:
    async def __call__(self, _message: Message) -> None: ...


@pytest.mark.parametrize("topics", [[], "orders"])
def test_topics_are_a_list(topics: list[str]) -> None:
    with pytest.raises(LocalError, match="topics must be a list"):
        ParallelConsumer(SETTINGS, topics, handle)


def test_the_handler_must_be_callable() -> None:
    with pytest.raises(LocalError, match="handler must be a function"):
        ParallelConsumer(SETTINGS, ["t"], "handle")  # type: ignore[arg-type]


@pytest.mark.parametrize("handler", [handle_async, Handling()])
def test_a_loop_requires_a_coroutine_function(handler: object) -> None:
    loop = asyncio.new_event_loop()
    try:
        with pytest.raises(LocalError, match="runs in threads"):
            ParallelConsumer(SETTINGS, ["t"], handle, loop=loop)
        ParallelConsumer(SETTINGS, ["t"], handler, loop=loop)  # type: ignore[arg-type]
    finally:
        loop.close()


def test_a_consumer_runs_once_and_may_be_stopped_before() -> None:
    consumer = ParallelConsumer(SETTINGS, ["t"], handle, Options(workers=1))
    consumer.stop()
    consumer.run()
    assert consumer.progress().partitions == ()
    with pytest.raises(LocalError, match="runs once"):
        consumer.run()
