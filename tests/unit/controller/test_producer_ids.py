from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.producer_ids import decide_allocate
from ottla.metadata.records import ProducerIdsRecord
from tests.support.metadata import one_node, replayed


def test_blocks_follow_each_other() -> None:
    image = one_node()
    firsts = []
    for _ in range(3):
        records, block = decide_allocate(image, 1, 5)
        firsts.append(block.first)
        assert block.size == 1000
        image = replayed(records, image)
    assert firsts == [0, 1000, 2000]


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(2, 5, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 4, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_only_for_brokers_that_are_known(broker: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        decide_allocate(one_node(), broker, epoch)
    assert refused.value.code is code


def test_ids_end_somewhere() -> None:
    image = replayed([ProducerIdsRecord(next_producer_id=2**63 - 500)], one_node())
    with pytest.raises(ApiError):
        decide_allocate(image, 1, 5)
