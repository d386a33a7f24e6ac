"""The event stream of a page: fragments whose HTML has changed, or the events of the page's own.

The format is that of server-sent events; the data are JSON, so that HTML with line breaks is one line. A comment is
sent if nothing changes, so that a closed connection is noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import msgspec

from ottla.base.errors import OttlaError
from ottla.console.data.poller import Poller
from ottla.console.page import Console, Event, Page, View
from ottla.console.presentation.rendering import render_fragments

HEARTBEAT_S = 15.0
HEARTBEAT = b": \n\n"
RETRY = b"retry: 1000\n\n"
_END = object()


def encode(event: Event) -> bytes:
    data = msgspec.json.encode({"target": event.target, "html": event.html})
    position = f"id: {event.position}\n".encode() if event.position else b""
    return position + b"event: " + event.kind.encode() + b"\ndata: " + data + b"\n\n"


async def live_events(console: Console, poller: Poller, page: Page, view: View) -> AsyncIterator[bytes]:
    """The fragments of a page, each when it has changed. The first snapshot sends all of them."""
    sent: dict[str, str] = {}
    version = 0
    yield RETRY
    async with poller.watching():
        while True:
            try:
                snapshot = await asyncio.wait_for(poller.newer_than(version), HEARTBEAT_S)
            except TimeoutError:
                yield HEARTBEAT
                continue
            version = snapshot.version
            fresh = await asyncio.to_thread(_fragments, console, page, replace(view, snapshot=snapshot))
            for name, html in fresh.items():
                if sent.get(name) != html:
                    sent[name] = html
                    yield encode(Event("replace", name, html))


async def own_events(events: Iterator[Event]) -> AsyncIterator[bytes]:
    """The events of a page's own stream, read in a worker thread."""
    yield RETRY
    try:
        while (event := await asyncio.to_thread(_next, events)) is not _END:
            yield HEARTBEAT if event is None else encode(event)
        yield encode(Event("end"))
    finally:
        close = getattr(events, "close", None)
        if close is not None:
            await asyncio.shield(asyncio.to_thread(_close, close))


def _next(events: Iterator[Event]) -> Any:
    return next(events, _END)


def _close(close: Any) -> None:
    try:
        close()
    except ValueError:  # the generator is still executing in the thread of a cancelled call
        return


def _fragments(console: Console, page: Page, view: View) -> dict[str, str]:
    """The fragments, or a problem as text: a page does not end because the cluster does not respond."""
    try:
        context = page.context(console, view)
    except OttlaError:
        return {}
    return render_fragments(console.environment, page.live, context)
