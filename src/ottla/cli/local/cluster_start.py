"""Start of a local cluster by a command, with an error in one line."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.base.errors import LocalError
from ottla.local.broker_process import BrokerNotStarted
from ottla.local.cluster import LocalCluster


@contextmanager
def started(cluster: LocalCluster, stop: threading.Event | None = None) -> Iterator[None]:
    """Start a cluster and stop it cleanly at the end, also after an error. Raises LocalError if it does not start.

    The start is not completed if `stop` is set meanwhile.
    """
    try:
        try:
            cluster.start(stop)
        except (BrokerNotStarted, TimeoutError) as error:
            last = str(error).strip().splitlines()[-1]
            raise LocalError(f"the cluster did not start: {last.partition('reason=')[2] or last}") from error
        yield
    finally:
        cluster.stop_all()
