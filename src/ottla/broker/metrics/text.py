"""Prometheus's text format (version 0.0.4): families, samples, escaped labels. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SAMPLES_PER_PIECE: Final = 100
"""Samples that are written without a break."""

Samples = Iterable[tuple[str, float]]
"""Labels in their text form, with braces, and values."""


BREAK: Final = ""
"""A piece without text: the writer of a scrape may stop here to let others run."""


def escape(value: str) -> str:
    """The value of a label between its quotes."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def labels(**values: object) -> str:
    """Labels in their text form; none without arguments."""
    if not values:
        return ""
    return "{" + ",".join(f'{name}="{escape(str(value))}"' for name, value in values.items()) + "}"


def family(name: str, kind: str, text: str, samples: Samples) -> Iterator[str]:
    """The lines of one family, in pieces; nothing if it has no sample."""
    lines = [f"# HELP {name} {text}\n# TYPE {name} {kind}\n"]
    count = 0
    for label_text, value in samples:
        lines.append(f"{name}{label_text} {number(value)}\n")
        count += 1
        if len(lines) > SAMPLES_PER_PIECE:
            yield "".join(lines)
            lines.clear()
    if count and lines:
        yield "".join(lines)


def number(value: float) -> str:
    """A value as Prometheus reads it."""
    if isinstance(value, int):  # also bool
        return str(int(value))
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)
