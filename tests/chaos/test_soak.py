"""The rule of `make soak`, and what it reads from a broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.testing import Cluster
from tests.chaos.soak import FIGURES, MIB, Sample, sample, second_half, table, trend

SECONDS = 3600


def samples(memory: Callable[[float], float], restart_at: float = 0) -> list[Sample]:
    """One hour of samples; `memory` by the share of the time that has passed."""
    return [
        Sample(at, 1 if at < restart_at else 2, (memory(at / SECONDS) * MIB, 100.0 + at % 7, 10.0, 8.0))
        for at in range(0, SECONDS, 5)
    ]


def test_a_straight_line_is_fitted() -> None:
    line = trend([0, 1, 2, 3], [10, 12, 14, 16])
    assert (line.middle, line.end, line.growth) == pytest.approx((10, 16, 6))


@pytest.mark.parametrize(
    ("memory", "flat"),
    [
        (lambda share: 100.0, True),
        (lambda share: 100 + 50 * min(share, 0.4), True),
        (lambda share: 100 + 20 * (share * 100 % 1), True),
        (lambda share: 100 + 15 * share, True),
        (lambda share: 100 + 60 * share, False),
        (lambda share: 100 * 1.5**share, False),
    ],
    ids=["constant", "grows in the first half", "oscillates", "grows slowly", "leaks", "grows by a factor"],
)
def test_growth_in_the_second_half_is_not_flat(memory: Callable[[float], float], flat: bool) -> None:
    text, found = table({0: samples(memory)})
    assert found is flat
    assert ("NOT FLAT" in text) is not flat
    assert text.count("\n") == len(FIGURES)


def test_a_restart_in_the_first_half_is_allowed() -> None:
    assert len({each.pid for each in second_half(samples(lambda _: 1.0, SECONDS / 3))}) == 1
    with pytest.raises(ValueError, match="restarted"):
        second_half(samples(lambda _: 1.0, SECONDS * 2 / 3))


def test_a_broker_is_sampled() -> None:
    with Cluster(1, config={"ottla.metrics.port": "0"}, proxies=False) as cluster:
        found = sample(cluster, 0)
        assert found is not None
        assert found.pid == cluster.brokers[0].pid
        memory, files, tasks, threads = found.values
        assert memory > 10 * MIB
        assert files > 5
        assert tasks >= 1
        assert threads >= 1
        cluster.kill(0)
        assert sample(cluster, 0) is None
