"""The client of a group request."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class ClientInfo(NamedTuple):
    """A client as DescribeGroups shows it: its client id and its address.

    `host` has Kafka's form, with a leading slash: `/127.0.0.1`.
    """

    client_id: str
    host: str
    describes: Callable[[str], bool] | None = None
    """Whether the client may describe a topic: its regular expression matches only such topics. None: all topics."""
