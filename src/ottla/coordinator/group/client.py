"""Who sends a request, as far as a group remembers it."""

from __future__ import annotations

from typing import NamedTuple


class ClientInfo(NamedTuple):
    """A client as DescribeGroups shows it: the name it gives itself and the address it speaks from.

    `host` has Kafka's form, with a slash in front: `/127.0.0.1`.
    """

    client_id: str
    host: str
