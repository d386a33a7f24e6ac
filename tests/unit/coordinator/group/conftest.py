"""A shard with the topics t (4 partitions) and u (2)."""

from __future__ import annotations

import pytest

from tests.support.consumer_bench import ConsumerBench


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench(t=4, u=2)
