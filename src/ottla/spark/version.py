"""Spark's Python Data Source API, as far as the installed pyspark has it.

4.3 is what we are made for. In 4.1 a stream is not told the start of a batch nor a limit, so there are no limits per
trigger and no Trigger.AvailableNow; what asks for them is refused with a word on the version it needs.
"""

from __future__ import annotations

from ottla.base.errors import LocalError

VERSION_MIN = (4, 1)


def spark_version() -> tuple[int, int]:
    """Major and minor of the installed pyspark."""
    try:
        import pyspark
    except ImportError as error:
        raise LocalError("pyspark is not installed: pip install 'ottla[spark]'") from error
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def check_version() -> None:
    found = spark_version()
    if found < VERSION_MIN:
        raise LocalError(f"the data source ottla needs pyspark 4.1 or newer, this is {found[0]}.{found[1]}")


def has_read_limits() -> bool:
    """Whether a stream is told where a batch starts and how far it may go (4.2)."""
    return spark_version() >= (4, 2)
