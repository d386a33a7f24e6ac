from __future__ import annotations

import uuid
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.brokers import decide_register, decide_unfence
from ottla.controller.port import NodeRegistration
from ottla.metadata.image import Endpoint, MetadataImage
from ottla.metadata.records import BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.support.metadata import broker_record, features, one_node, replayed, topic_id_of, topic_records

NODE = NodeRegistration(
    node_id=1,
    incarnation_id=uuid.UUID(int=55),
    endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9092),),
    log_dirs=(uuid.UUID(int=8),),
    rack="r",
    controller_endpoints=(Endpoint("CONTROLLER", "127.0.0.1", 9093),),
)


def test_broker_epoch_is_the_offset_of_its_record() -> None:
    records, epoch = decide_register(replayed(features()), NODE, 41)
    assert epoch == 42
    image = replayed(records)
    broker = image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.rack, broker.log_dirs) == (42, True, "r", NODE.log_dirs)
    assert broker.endpoints == NODE.endpoints
    assert image.controllers[1].endpoints == NODE.controller_endpoints
    assert {f.name: f.max_version for f in broker.features}["metadata.version"] == 30


def test_registering_again_in_one_life_changes_nothing() -> None:
    records, epoch = decide_register(replayed(features()), NODE, 41)
    assert decide_register(replayed(records), NODE, 99) == ([], epoch)


def test_new_life_gets_a_new_epoch() -> None:
    image = replayed([*features(), broker_record(1, epoch=12)])
    records, epoch = decide_register(image, NODE, 50)
    assert epoch == 51
    assert replayed(records, image).brokers[1].fenced


def fenced(**partition: Any) -> MetadataImage:
    image = replayed([*features(), broker_record(1, fenced=True), *topic_records("t", [[1]])])
    if partition:
        change = PartitionChangeRecord(topic_id=topic_id_of("t"), partition_id=0, **partition)
        image = replayed([change], image)
    return image


@pytest.mark.parametrize(
    ("before", "leads"),
    [
        ({}, True),
        ({"leader": -1}, True),
        ({"leader": -1, "isr": [], "last_known_elr": [1]}, True),
        ({"leader": -1, "isr": [], "eligible_leader_replicas": [1]}, True),
        ({"leader": -1, "isr": []}, False),
        ({"leader": -1, "isr": [2]}, False),
        ({"leader": 2, "isr": [1, 2]}, False),
        ({"leader": -1, "isr": [1], "replicas": [2]}, False),
        ({"leader": -1, "isr": [], "eligible_leader_replicas": [2], "last_known_elr": [1]}, False),
    ],
)
def test_unfenced_broker_leads_what_is_its_to_lead(before: dict[str, Any], leads: bool) -> None:
    image = fenced(**before)
    old = image.topics.by_name["t"].partitions[0]
    records, _ = decide_unfence(image, 1, 5)
    assert isinstance(records[0], BrokerRegistrationChangeRecord)
    after = replayed(records, image)
    new = after.topics.by_name["t"].partitions[0]
    assert not after.brokers[1].fenced
    assert (new.leader == 1 and new.leader_epoch > old.leader_epoch) == leads
    if leads:
        assert new.isr == (1,)
        assert new.eligible_leader_replicas == () or old.isr
    else:
        assert new == old


def test_unfencing_twice_changes_nothing() -> None:
    assert decide_unfence(one_node("t"), 1, 5) == ([], None)


@pytest.mark.parametrize(
    ("broker", "epoch", "code"),
    [(2, 5, ErrorCode.BROKER_ID_NOT_REGISTERED), (1, 4, ErrorCode.STALE_BROKER_EPOCH)],
)
def test_unfencing_an_unknown_broker(broker: int, epoch: int, code: ErrorCode) -> None:
    with pytest.raises(ApiError) as refused:
        decide_unfence(one_node(), broker, epoch)
    assert refused.value.code is code
