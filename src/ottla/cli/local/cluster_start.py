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
        except BrokerNotStarted as error:
            last = str(error).strip().splitlines()[-1]
            raise LocalError(f"the cluster did not start: {last.partition('reason=')[2] or last}") from error
        except TimeoutError as error:
            what, *log = str(error).strip().splitlines()
            problems = [line.partition(" event=")[2] for line in log if "level='info'" not in line]
            cause = f"; {problems[-1]}" if problems else ""
            raise LocalError(
                f"the cluster did not start: {what.rstrip(':')}{cause}; the logs are {cluster.data}/broker-*.out"
            ) from error
        yield
    finally:
        cluster.stop_all()
