"""The version of pyspark and which parts of the Python Data Source API it has.

The source is developed for 4.3. In 4.1 a stream does not get the start of a batch or a limit, so limits per trigger and
Trigger.AvailableNow are not supported; their options are rejected with the version that they need.
"""

from __future__ import annotations

from ottla.base.errors import LocalError

VERSION_MIN = (4, 1)


def spark_version() -> tuple[int, int]:
    """The major and minor version of the installed pyspark."""
    try:
        import pyspark
    except ImportError as error:
        raise LocalError("pyspark is not installed: pip install 'ottla[spark]'") from error
    major, minor = pyspark.__version__.split(".")[:2]
    return int(major), int(minor)


def check_version() -> None:
    found = spark_version()
    if found < VERSION_MIN:
        raise LocalError(
            f"the data source ottla needs pyspark 4.1 or newer, but {found[0]}.{found[1]} is installed"
        )


def has_read_limits() -> bool:
    """Whether a stream gets the start and the limit of a batch (4.2)."""
    return spark_version() >= (4, 2)
