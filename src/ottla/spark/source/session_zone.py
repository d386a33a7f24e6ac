"""The time zone of the Spark session, in a Python process of Spark that has no session.

Spark passes its settings to tasks as local properties, if they are set. The default is the time zone of the Java
process of the driver: that of `-Duser.timezone`, or of the machine. Where a batch is planned there are no properties,
so the zone is only known there if the option `timeZone` is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ottla.base.errors import LocalError
from ottla.spark.values.times import Zone, machine_zone, parse_zone

OPTION: Final = "timeZone"
SETTING: Final = "spark.sql.session.timeZone"
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_JAVA_ZONE: Final = re.compile(r"-Duser\.timezone=(\S+)")


class ZoneUnknown(LocalError):
    """A time without a zone cannot be read in this process; a task can read it."""


def zone_of(name: str) -> Zone:
    """The zone with this name; raises LocalError if there is none."""
    found = parse_zone(name)
    if found is None:
        raise LocalError(f"{OPTION}: the time zone {name!r} is unknown")
    return found


def session_zone(option: str | None) -> Zone:
    """The zone of the option, or of the session of the running task."""
    if option is not None:
        return zone_of(option)
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is None:
        raise ZoneUnknown("the time zone of the session is unknown here")
    return zone_of(zone_name(task._localProperties or {}))


def zone_name(properties: Mapping[str, str]) -> str:
    """The name of the session's zone, from the local properties of a task."""
    found = _JAVA_ZONE.search(properties.get(_JAVA_OPTIONS, ""))
    return properties.get(SETTING) or (found[1] if found else machine_zone())
