"""The start of a cluster by a command: errors in one line, and a stop in any case."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.cli.local.cluster_start import started
from ottla.local.broker_process import BrokerNotStarted


class Cluster:
    """A cluster whose start may fail."""

    def __init__(self, fails: Exception | None = None) -> None:
        self.fails = fails
        self.stopped = 0
        self.data = Path("data")

    def start(self, stop: object = None) -> None:
        if self.fails is not None:
            raise self.fails

    def stop_all(self) -> None:
        self.stopped += 1


def test_a_cluster_that_does_not_start_is_reported() -> None:
    cluster = Cluster(BrokerNotStarted("the broker ended with 1:\nevent='cannot start' reason=no room"))
    with pytest.raises(LocalError, match=r"^the cluster did not start: no room$"), started(cluster):  # type: ignore[arg-type]
        raise AssertionError("it has not started")
    assert cluster.stopped == 1


@pytest.mark.parametrize(
    ("problem", "cause"),
    [("", ""), ("level='warning' event='lost' remedy='restore'\n", "; 'lost' remedy='restore'")],
)
def test_a_cluster_that_is_not_ready_in_time_is_reported(problem: str, cause: str) -> None:
    log = f"level='info' event='first'\n{problem}level='info' event='last'"
    expected = f"the cluster did not start: not ready within 30 s{cause}; the logs are data/broker-*.out"
    cluster = Cluster(TimeoutError(f"not ready within 30 s:\n{log}"))
    with pytest.raises(LocalError) as raised, started(cluster):  # type: ignore[arg-type]
        raise AssertionError("it has not started")
    assert str(raised.value) == expected


def test_a_later_error_is_not_reported_as_a_failed_start() -> None:
    cluster = Cluster()
    with pytest.raises(TimeoutError, match="something else"), started(cluster):  # type: ignore[arg-type]
        raise TimeoutError("something else")
    assert cluster.stopped == 1
