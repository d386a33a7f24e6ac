from __future__ import annotations

import random

import pytest

from ottla.base.errors import LocalError
from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.features import INITIAL_LEVELS, initial_records
from ottla.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from ottla.metadata.snapshot import digest
from tests.support.metadata import broker_record, features, topic_records


def controller(**settings: str) -> Controller:
    config = BrokerConfig({"node.id": "1", **{k.replace("_", "."): v for k, v in settings.items()}})
    return Controller(config, 1, random.Random(3))


def test_new_cluster_begins_with_levels_and_min_isr() -> None:
    records = controller(min_insync_replicas="2").decide_start(initial_records())
    assert records[:-1] == initial_records()
    assert records[-1] == ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )


def test_without_eligible_leaders_min_isr_stays_with_the_brokers() -> None:
    levels = [FeatureLevelRecord(name="metadata.version", feature_level=21)]
    assert controller().decide_start(levels) == levels


def test_existing_cluster_begins_with_nothing() -> None:
    loaded = controller()
    loaded.load(features(), 5, 1)
    assert loaded.decide_start(initial_records()) == []


def test_transaction_of_another_controller_counts_when_it_ended() -> None:
    begin, end = BeginTransactionRecord(name="Bootstrap records"), EndTransactionRecord()
    loaded = controller()
    loaded.load([begin, *initial_records(), end], 8, 1)
    assert dict(loaded.image.features) == INITIAL_LEVELS
    assert (loaded.image.offset, loaded.image.epoch) == (8, 1)


def test_transaction_left_open_is_aborted() -> None:
    loaded = controller()
    loaded.load([*features(), broker_record(1), BeginTransactionRecord(), *topic_records("half")], 9, 1)
    assert loaded.image.topics.by_name == {}
    (abort,) = loaded.decide_start(initial_records())
    assert isinstance(abort, AbortTransactionRecord)
    loaded.replay([abort, *topic_records("whole")], 12, 2)
    assert list(loaded.image.topics.by_name) == ["whole"]


def test_newer_features_are_refused() -> None:
    with pytest.raises(LocalError, match=r"metadata\.version 99"):
        controller().load([FeatureLevelRecord(name="metadata.version", feature_level=99)], 1, 1)


def test_leader_and_standby_end_up_alike() -> None:
    """One replays batch by batch as they are committed, the other all at once after a restart."""
    batches = [
        features(),
        [broker_record(1)],
        topic_records("a", [[1]] * 3),
        topic_records("b"),
        topic_records("c"),
    ]
    leader, standby = controller(), controller()
    offset = -1
    for batch in batches:
        offset += len(batch)
        leader.replay(batch, offset, 1)
    standby.load([record for batch in batches for record in batch], offset, 1)
    assert leader.image == standby.image
    assert digest(leader.image) == digest(standby.image)
