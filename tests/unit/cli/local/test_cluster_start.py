"""The start of a cluster by a command: errors in one line, and a stop in any case."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.cli.local.cluster_start import started


class Cluster:
    """A cluster whose start may fail."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.fails = fails
        self.stopped = 0

    def start(self, stop: object = None) -> None:
        if self.fails is not None:
            raise self.fails

    def stop_all(self) -> None:
        self.stopped += 1


def test_a_cluster_that_does_not_start_is_reported() -> None:
    cluster = Cluster(TimeoutError("not ready\nreason=no room"))
    with pytest.raises(LocalError, match=r"^the cluster did not start: no room$"), started(cluster):  # type: ignore[arg-type]
        raise AssertionError("it has not started")
    assert cluster.stopped == 1


def test_a_later_error_is_not_reported_as_a_failed_start() -> None:
    cluster = Cluster()
    with pytest.raises(TimeoutError, match="something else"), started(cluster):  # type: ignore[arg-type]
        raise TimeoutError("something else")
    assert cluster.stopped == 1
