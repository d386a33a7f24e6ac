"""Producing of records for `ottla produce`: from options, from standard input or from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.admin.records.record_input import Input, read_records
from ottla.admin.records.record_json import InvalidRecord, OutgoingRecord
from ottla.base.errors import LocalError

if TYPE_CHECKING:
    from ottla.admin.records.send import Sent
    from ottla.admin.session import Session


class InvalidOptions(LocalError):
    """Options that contradict each other."""


@dataclass(frozen=True)
class ProduceOptions:
    """What to produce. Key, headers and partition apply to each record of the input that has none."""

    topic: str
    key: str | None = None
    value: str | None = None
    null: bool = False
    headers: tuple[str, ...] = ()
    partition: int | None = None
    input: Input = Input.LINES
    separator: str | None = None
    rate: float | None = None
    transactional: bool = False

    def check(self) -> None:
        """Raise InvalidOptions before anything is produced."""
        parse_headers(self.headers)
        if self.value is not None and self.null:
            raise InvalidOptions("-v and --null contradict each other")
        if self.separator is not None and (self.input is not Input.LINES or self.has_record):
            raise InvalidOptions("-K separates keys from values in lines of the input")
        if self.separator == "":
            raise InvalidOptions("-K needs a separator")

    @property
    def has_record(self) -> bool:
        """Whether the options contain the record itself, so that no input is read."""
        return self.value is not None or self.null

    def records(self, lines: Iterable[bytes]) -> Iterator[tuple[int, OutgoingRecord]]:
        """The records with their numbers. Raise InvalidRecord at the first line that is not one."""
        headers = parse_headers(self.headers)
        key = None if self.key is None else self.key.encode()
        if self.has_record:
            value = None if self.value is None else self.value.encode()
            yield 1, OutgoingRecord(key, value, headers, self.partition)
            return
        for number, record in read_records(lines, self.input, separator=self.separator):
            yield (
                number,
                record._replace(
                    key=key if record.key is None else record.key,
                    headers=record.headers + headers,
                    partition=record.partition if self.partition is None else self.partition,
                ),
            )


def parse_headers(given: Iterable[str]) -> tuple[tuple[str, bytes | None], ...]:
    """Headers `name=value`; `name` alone has no value. Raise InvalidOptions."""
    found: list[tuple[str, bytes | None]] = []
    for text in given:
        name, mark, value = text.partition("=")
        if not name:
            raise InvalidOptions(f"-H {text!r} has no name: give a header as name=value")
        found.append((name, value.encode() if mark else None))
    return tuple(found)


def run(session: Session, options: ProduceOptions, lines: Iterable[bytes]) -> Sent:
    """Produce the records. A line that is not a record fails and ends the input: the rest is probably not as meant.

    Records before it have been produced, unless they are in a transaction, which is then aborted.
    """
    from ottla.admin.records.send import Sender

    with Sender(session, options.topic, transactional=options.transactional, rate=options.rate) as sender:
        session.cluster.topic(options.topic, options.partition)
        try:
            sender.send_all(options.records(lines))
        except InvalidRecord as error:
            sender.result.fail(error.number, str(error))
    return sender.result
