"""`ottla top`: the rates of topics and the lag of groups, refreshed until Ctrl-C."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.errors import LocalError
from ottla.cli.context import Admin, AdminCommand, administration
from ottla.cli.help import Application, examples
from ottla.cli.output import Column, Section, bytes_text, count_text, number, seconds_text
from ottla.cli.terminal import stop_on_signals

if TYPE_CHECKING:
    from ottla.admin.activity import GroupActivity, Sample, TopicActivity

app = Application(help="Show rates of topics and lag of groups, refreshed.")


def _rate_text(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


_TOPICS = (
    Column("topic"),
    number("offsets_per_s", "offsets/s", _rate_text),
    number("offsets", show=count_text),
    number("bytes", "size", bytes_text),
    number("partitions"),
    number("under_replicated"),
)
_GROUPS = (
    Column("group"),
    Column("state"),
    number("members"),
    number("lag", show=count_text),
    number("lag_seconds", "lag time", seconds_text),
    number("offsets_per_s", "offsets/s", _rate_text),
    number("lag_per_s", "lag/s", lambda value: "-" if value is None else f"{value:+,.0f}"),
    number("catches_up_s", "catches up in", seconds_text),
)


@app.command(
    cls=AdminCommand,
    epilog=examples("ottla top", "ottla top --every 5s --internal", "ottla top --count 1 -o json"),
)
def top(
    ctx: typer.Context,
    every: Annotated[str, typer.Option("--every", "-e", help="Time between refreshes.")] = "2s",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="Number of refreshes; endless on a terminal.")
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Topics and groups to show, at most.")] = 20,
    internal: Annotated[bool, typer.Option("--internal", "-i", help="Internal topics as well.")] = False,
) -> None:
    """Show the fastest topics and the groups with the largest lag, refreshed until Ctrl-C.

    Rates are offsets per second. A group that catches up shows the time that it needs at its present rate.
    """
    from ottla.admin.activity import take_sample
    from ottla.admin.positions import parse_duration_ms

    with administration(ctx) as admin:
        pause_s = parse_duration_ms(every) / 1000
        if pause_s <= 0:
            raise LocalError(f"--every: {every} is not a positive duration")
        left = count if count is not None or sys.stdout.isatty() else 1
        stop = threading.Event()
        with stop_on_signals(stop, None), _screen(admin, rows) as show:
            before = take_sample(admin.session, internal=internal)
            if sys.stdout.isatty() and admin.output.is_table:
                show(None, before)
            while (left is None or left > 0) and not stop.wait(pause_s):
                now = take_sample(admin.session, internal=internal)
                show(before, now)
                before, left = now, None if left is None else left - 1


@contextmanager
def _screen(admin: Admin, limit: int) -> Iterator[Callable[[Sample | None, Sample], None]]:
    """How samples are shown: a live view on a terminal, else one document for each."""
    from ottla.admin.activity import compare

    if not (sys.stdout.isatty() and admin.output.is_table):

        def show(before: Sample | None, now: Sample) -> None:
            topics, groups = compare(before, now)
            sections = _sections(topics[:limit], groups[:limit])
            admin.output.document({"bootstrap": admin.target.bootstrap}, sections)

        yield show
        return
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    with Live(screen=True, auto_refresh=False) as live:

        def draw(before: Sample | None, now: Sample) -> None:
            topics, groups = compare(before, now)
            parts = [
                admin.output.rich_table(each.columns, each.rows)
                for each in _sections(topics[:limit], groups[:limit])
            ]
            title = Text(
                f"{admin.target.bootstrap}   {len(topics)} topics   {len(groups)} groups   Ctrl-C ends"
            )
            live.update(Group(title, Text(), parts[0], Text(), parts[1]), refresh=True)

        yield draw


def _sections(topics: Sequence[TopicActivity], groups: Sequence[GroupActivity]) -> list[Section]:
    return [
        Section("topics", _TOPICS, [_topic(each) for each in topics]),
        Section("groups", _GROUPS, [_group(each) for each in groups]),
    ]


def _topic(each: TopicActivity) -> dict[str, Any]:
    return {
        "topic": each.topic.name,
        "offsets_per_s": each.offsets_per_s,
        "offsets": each.topic.offsets,
        "bytes": each.topic.size,
        "partitions": len(each.topic.partitions),
        "under_replicated": each.topic.under_replicated,
    }


def _group(each: GroupActivity) -> dict[str, Any]:
    return {
        "group": each.group.name,
        "state": each.group.state,
        "members": len(each.group.members),
        "lag": each.group.lag,
        "lag_seconds": each.group.lag_seconds,
        "offsets_per_s": each.offsets_per_s,
        "lag_per_s": each.lag_per_s,
        "catches_up_s": each.catches_up_s,
    }
