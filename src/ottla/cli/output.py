"""Output of commands: a table for people, or JSON, JSON lines and CSV for programs.

A table on a terminal is fitted to its width. Otherwise no value is truncated and columns are separated by at least two
spaces. JSON has the values themselves: numbers, null, lists; a table has texts such as `1.2 MiB`.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.base.errors import LocalError

if TYPE_CHECKING:
    from rich.table import Table

FORMATS = ("table", "json", "jsonl", "csv")
Row = Mapping[str, Any]


def text_of(value: Any) -> str:
    """A value in a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return " ".join(map(text_of, value)) or "-"
        case _:
            return str(value)


@dataclass(frozen=True)
class Column:
    """One column: its key in JSON and CSV, its title in a table, and how its values are shown there."""

    key: str
    title: str = ""
    show: Callable[[Any], str] = text_of
    right: bool = False

    @property
    def heading(self) -> str:
        return (self.title or self.key.replace("_", " ")).upper()


def number(key: str, title: str = "", show: Callable[[Any], str] | None = None) -> Column:
    """A column of numbers, aligned to the right."""
    return Column(key, title, show or text_of, right=True)


@dataclass(frozen=True)
class Section:
    """One table of a document. Its rows are in JSON under `key`."""

    key: str
    columns: Sequence[Column]
    rows: Sequence[Row]


class Output:
    """Writes results in the chosen format."""

    def __init__(self, output_format: str) -> None:
        if output_format not in FORMATS:
            raise LocalError(f"-o can be {', '.join(FORMATS)}, not {output_format}")
        self.format = output_format

    @property
    def is_table(self) -> bool:
        return self.format == FORMATS[0]

    def rows(self, columns: Sequence[Column], rows: Iterable[Row], *, empty: str = "") -> None:
        """A list of rows. On a terminal, `empty` is printed if there are none."""
        listed = list(rows)
        if self.is_table and not listed and empty:
            self.note(empty)
        elif self.is_table:
            self._table(columns, listed)
        else:
            write(format_rows(self.format, columns, listed))

    def document(self, facts: Mapping[str, Any], sections: Sequence[Section] = ()) -> None:
        """One thing: facts about it and tables. CSV has the rows of the first table, else the facts."""
        if self.is_table:
            width = max(map(len, facts), default=0) + 1
            for name, value in facts.items():
                title = name.replace("_", " ") + ":"
                write(f"{title:<{width}} {text_of(value)}\n")
            for section in sections:
                if section.rows:
                    write("\n")
                    self._table(section.columns, section.rows)
        elif self.format == "csv":
            if sections:
                write(format_rows("csv", sections[0].columns, sections[0].rows))
            else:
                write(format_rows("csv", [Column(key) for key in facts], [facts]))
        else:
            made = {
                **facts,
                **{each.key: [_picked(each.columns, row) for row in each.rows] for each in sections},
            }
            indent = 2 if self.format == "json" else None
            write(json.dumps(made, indent=indent, ensure_ascii=False) + "\n")

    def note(self, text: str) -> None:
        """A message for people, on stderr, so that it is not mixed with data."""
        sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def done(self, text: str, **facts: Any) -> None:
        """The result of an action: a sentence in a table, else the facts."""
        if self.is_table:
            write(text + "\n")
        else:
            self.document(facts or {"result": text})

    def _table(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        if not sys.stdout.isatty():
            write(format_table(columns, rows))
            return
        from rich.console import Console

        Console(markup=False, highlight=False).print(self.rich_table(columns, rows))

    @staticmethod
    def rich_table(columns: Sequence[Column], rows: Sequence[Row]) -> Table:
        """A table that is fitted to the width of a terminal."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(column.heading, justify="right" if column.right else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(column.show(row.get(column.key))) for column in columns))
        return table


def write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def format_table(columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A table as plain text."""
    lines = [[column.heading for column in columns]]
    lines += [[column.show(row.get(column.key)) for column in columns] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "".join(
        "  ".join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )


def format_rows(output_format: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Rows as JSON, JSON lines or CSV."""
    picked = [_picked(columns, row) for row in rows]
    if output_format == "json":
        return json.dumps(picked, indent=2, ensure_ascii=False) + "\n"
    if output_format == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in picked)
    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow([column.key for column in columns])
    writer.writerows([_cell(row[column.key]) for column in columns] for row in picked)
    return made.getvalue()


def _picked(columns: Sequence[Column], row: Row) -> dict[str, Any]:
    return {column.key: row.get(column.key) for column in columns}


def _cell(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return " ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


# --- values in tables


def bytes_text(value: int | None) -> str:
    """A size: 512 B, 1.2 KiB, 3.4 GiB."""
    if value is None or value < 0:
        return "-"
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{value} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return "-"


def count_text(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def seconds_text(value: float | None) -> str:
    """A duration in seconds: 0, 0.4s, 12s, 3m 20s, 2h 5m, 4d 3h."""
    if value is None:
        return "-"
    if value < 10:
        return f"{value:.1f}s" if value else "0"
    whole = round(value)
    if whole < 60:
        return f"{whole}s"
    for larger, unit, smaller, rest in ((3600, "m", 60, "s"), (86_400, "h", 3600, "m")):
        if whole < larger:
            return f"{whole // smaller}{unit} {whole % smaller // (smaller // 60)}{rest}"
    return f"{whole // 86_400}d {whole % 86_400 // 3600}h"


def time_text(value_ms: int | None) -> str:
    """A timestamp in UTC: 2026-11-17T10:00:00.123Z."""
    if value_ms is None or value_ms < 0:
        return "-"
    from datetime import UTC, datetime

    try:
        time = datetime.fromtimestamp(value_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(value_ms)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value_ms % 1000:03d}Z"
