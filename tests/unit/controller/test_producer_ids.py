from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import Decision
from ottla.controller.producer_ids import decide_allocate
from ottla.metadata.records import ProducerIdsRecord
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from tests.support.controller import ControllerBench, cluster


def allocate(
    bench: ControllerBench, broker_id: int = 1, broker_epoch: int = 1
) -> Decision[AllocateProducerIdsResponse]:
    request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch)
    return decide_allocate(bench.view, request)


def test_blocks_follow_each_other() -> None:
    bench = cluster()
    firsts = []
    for _ in range(3):
        response = bench.apply(allocate(bench))
        firsts.append(response.producer_id_start)
        assert response.producer_id_len == 1000
    assert firsts == [0, 1000, 2000]


@pytest.mark.parametrize(("broker_id", "epoch"), [(9, 5), (1, 4)])
def test_only_for_brokers_that_are_registered_under_their_epoch(broker_id: int, epoch: int) -> None:
    with pytest.raises(ApiError) as refused:
        allocate(cluster(), broker_id, epoch)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_ids_end_somewhere() -> None:
    bench = cluster()
    bench.replay(ProducerIdsRecord(next_producer_id=2**63 - 500))
    with pytest.raises(ApiError):
        allocate(bench)
