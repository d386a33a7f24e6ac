"""Counters of what clients have sent to and fetched from a partition, since this broker has the replica.

The produce and fetch paths increment the fields directly; the endpoint for metrics sums them by topic.
"""

from __future__ import annotations


class Traffic:
    """The counters of one partition. A request counts once for each partition in it."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetch_requests",
        "failed_produce_requests",
        "fetch_requests",
        "messages_in",
        "produce_requests",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.produce_requests = 0
        self.fetch_requests = 0
        self.failed_produce_requests = 0
        self.failed_fetch_requests = 0
