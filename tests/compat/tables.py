"""Tables as Kafka's tools print them: a line of column names, then lines of words."""

from __future__ import annotations

import re
from collections.abc import Iterator

Row = dict[str, str]


def rows(printed: str, first_column: str) -> list[Row]:
    """The rows of every table whose first column has this name; of a coordinator the id is part of the cell."""
    return list(_rows(printed.splitlines(), first_column))


def _rows(lines: list[str], first_column: str) -> Iterator[Row]:
    names: list[str] = []
    for line in lines:
        words = re.split(r"\s+", line.strip().replace("COORDINATOR (ID)", "COORDINATOR-(ID)"))
        if words == [""]:
            names = []
        elif words[0] == first_column:
            names = words
        elif names:
            cells = re.sub(r"\s+(\(\d+\)\s)", r"\1", line.strip())
            yield dict(zip(names, re.split(r"\s+", cells), strict=False))
