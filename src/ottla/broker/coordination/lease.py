"""The lease on leadership: how long this broker may rely on the leaderships in its image.

The active controller takes leaderships away from a broker in two cases. If the broker is alive, it follows the
metadata: until it has followed, it is in the ISR of its partitions, and the new leader commits nothing without it. If
the broker is silent, the controller fences it when the session timeout has passed since it received the last
heartbeat. An acknowledged heartbeat therefore guarantees leaderships for that timeout, from the time at which it was
sent. The lease ends earlier: clocks run at different rates, and a new controller waits for the end of the leases that
the former one has granted, so a shorter lease is a shorter failover.

There are exceptions. A replica in a failed directory leaves the ISR while its broker is alive, so that a shard also
checks its log. A broker whose metadata log has failed does not follow the metadata, and a broker in a controlled
shutdown leaves all ISRs before it has followed: neither has a lease.

One window remains: the controller also fences a broker on evidence (a connection that was lost and refused again). If
the broker is alive, it may return old state until its next heartbeat is answered.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.controller.brokers.sessions import LEASE_SHARE


class HeartbeatLease:
    """`coordinator.runtime.ports.LeadershipLease` from the heartbeats of this broker."""

    def __init__(
        self, acknowledged_at: Callable[[], float | None], timeout_s: float, time: Callable[[], float]
    ) -> None:
        """`acknowledged_at` is when the last acknowledged heartbeat was sent, on the monotonic clock `time`.

        It is None while this broker is fenced or does not follow the metadata, or before its first heartbeat.
        """
        self._acknowledged_at = acknowledged_at
        self._duration_s = LEASE_SHARE * timeout_s
        self._time = time

    def holds(self) -> bool:
        sent_at = self._acknowledged_at()
        return sent_at is not None and self._time() - sent_at < self._duration_s


class PermanentLease:
    """The lease of the only voter of a quorum: no other node can elect leaders."""

    def holds(self) -> bool:
        return True
