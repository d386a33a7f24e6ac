"""`ottla consume` on logs in memory: what is read, limits, following, and how it ends."""

from __future__ import annotations

import io
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.admin.positions import END, START, InvalidPosition, parse_position
from ottla.admin.records.browse import Progress
from ottla.admin.records.scan import ConsumedRecord
from ottla.admin.records.where import InvalidExpression
from ottla.base.errors import LocalError
from ottla.cli.records import consume
from ottla.cli.records.consume import ConsumeOptions, Consumption, UsageError
from ottla.cli.records.record_output import RecordWriter
from tests.support.fake_log import FakeLog, numbered, session_of


class Collected(RecordWriter):
    """Keeps the values of records; may be interrupted."""

    def __init__(
        self, out: io.BytesIO, fails_at: int | None = None, error: BaseException | None = None
    ) -> None:
        super().__init__(out)
        self.values: list[int] = []
        self.finished = False
        self.on_write: Callable[[], None] | None = None

    def write(self, record: ConsumedRecord) -> None:
        self.values.append(int(record.value or b""))
        if self.on_write is not None:
            self.on_write()

    def finish(self) -> None:
        self.finished = True


def session() -> Any:
    one, two = FakeLog(), FakeLog()
    one.append(numbered([0, 1, 2, 5, 6]))
    two.append(numbered([3, 4]))
    return session_of(one, two)


def read(**options: Any) -> list[int]:
    out = io.BytesIO()
    writer = Collected(out)
    Consumption(session(), ConsumeOptions(("t",), **options)).run(writer, out)
    assert writer.finished
    return writer.values


def test_what_is_read() -> None:
    assert read() == [0, 1, 2, 3, 4, 5, 6]
    assert read(count=2) == [0, 1]
    assert read(count=0) == []
    assert read(tail=3) == [4, 5, 6]
    assert read(tail=3, count=1) == [4]
    assert read(tail=0) == []
    assert read(offsets="-1") == [4, 6]
    assert read(offsets="1:3", partitions=(0,)) == [1, 2]
    assert read(offsets="start:+1", tail=1) == [3]
    assert read(where="value >= 5") == [5, 6]
    assert read(key="k[12]") == [1, 2]
    assert read(key="k[12]", where="value = 2") == [2]


def test_new_records_are_followed_until_the_limit() -> None:
    made = session()
    log: FakeLog = next(iter(made.cluster.logs.values()))
    options = ConsumeOptions(("t",), tail=1, follow=True, count=3)
    out = io.BytesIO()
    writer = Collected(out)
    consumption = Consumption(made, options)
    original = consumption._browser_batches(["t"])

    def appending(_: Any) -> Iterator[Any]:
        for index, batch in enumerate(original):
            yield batch
            if index == 0:
                log.append(numbered([8, 9, 10]))

    consumption._browser_batches = appending  # type: ignore[method-assign]
    consumption.run(writer, out)
    assert writer.values == [6, 8, 9]
    assert consumption.written == 3


def test_following_ends_when_it_is_cancelled() -> None:
    out = io.BytesIO()
    writer = Collected(out)
    consumption = Consumption(session(), ConsumeOptions(("t",), offsets="start", follow=True))
    writer.on_write = lambda: consumption.cancel() if len(writer.values) == 3 else None
    consumption.run(writer, out)
    assert writer.finished
    assert writer.values[:3] == [0, 1, 2]
    early = Consumption(session(), ConsumeOptions(("t",), follow=True))
    early.cancel()
    early.run(writer, out)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_following_and_interrupts_everything_else(number: signal.Signals) -> None:
    for follow in (True, False):
        out = io.BytesIO()
        writer = Collected(out)
        writer.on_write = lambda: signal.raise_signal(number) if len(writer.values) == 1 else None  # noqa: B023
        consumption = Consumption(session(), ConsumeOptions(("t",), offsets="start", follow=follow))
        if follow:
            consumption.run(writer, out)
            assert writer.finished
        else:
            with pytest.raises(KeyboardInterrupt):
                consumption.run(writer, out)
            assert writer.values == [0]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_progress_is_reported() -> None:
    out = io.BytesIO()
    reported: list[Progress] = []
    Consumption(session(), ConsumeOptions(("t",), where="value = 5"), reported.append).run(
        Collected(out), out
    )
    assert reported[-1] == Progress(7, 7, 1)


def test_default_positions() -> None:
    assert ConsumeOptions(("t",)).positions() == (START, END)
    assert ConsumeOptions(("t",), follow=True).positions() == (END, END)
    assert ConsumeOptions(("t",), follow=True, tail=5).positions() == (START, END)
    assert ConsumeOptions(("t",), follow=True, group="g").positions() == (START, END)
    assert ConsumeOptions(("t",), follow=True, offsets="-5").positions() == (parse_position("-5"), END)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"offsets": "1:2", "follow": True}, UsageError, "--follow has no end"),
        ({"offsets": "-5", "group": "g"}, UsageError, "-O can be start or end"),
        ({"group": "g", "tail": 5}, UsageError, "cannot be used with -g"),
        ({"group": "g", "partitions": (1,)}, UsageError, "cannot be used with -g"),
        ({"offsets": "x"}, InvalidPosition, "position"),
        ({"where": "x"}, InvalidExpression, "expected a field"),
        ({"key": "["}, LocalError, "without"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ConsumeOptions(("t",), **options).check()


def test_topics_can_be_globs() -> None:
    class Topics:
        def topics(self) -> dict[str, None]:
            return dict.fromkeys(["b2", "a1", "a2", "__consumer_offsets"])

    made = Topics()
    made.cluster = made  # type: ignore[attr-defined]
    found: Any = made
    assert consume.matching_topics(found, ["a*", "x", "a1"]) == ["a1", "a2", "x"]
    assert consume.matching_topics(found, ["*"]) == ["a1", "a2", "b2"]
    with pytest.raises(LocalError, match=r"no topic matches c\*"):
        consume.matching_topics(found, ["c*"])
