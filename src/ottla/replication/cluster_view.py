"""What the partitions of this broker use of the cluster: the brokers, the time, and the path to the controller."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.base.clock import Clock
from ottla.metadata.image import BrokerImage
from ottla.replication.isr_requests import IsrRequests


class ClusterView:
    """Shared by all partitions. `Replicas` replaces `brokers` at every image."""

    __slots__ = ("brokers", "clock", "isr_requests", "lag_max_s")

    def __init__(
        self, clock: Clock, lag_max_s: float = 30.0, isr_requests: IsrRequests | None = None
    ) -> None:
        """Without `isr_requests` no change of an ISR is proposed."""
        self.clock = clock
        self.lag_max_s = lag_max_s
        self.isr_requests = isr_requests
        self.brokers: Mapping[int, BrokerImage] = {}
