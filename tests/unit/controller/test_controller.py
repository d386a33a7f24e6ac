from __future__ import annotations

import random
import uuid

from ottla.config.broker import BrokerConfig
from ottla.controller.controller import Controller
from ottla.controller.settings.features import initial_records
from ottla.metadata.records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    ConfigRecord,
    FeatureLevelRecord,
    RemoveAccessControlEntryRecord,
)
from tests.support.metadata import broker_record, features, replayed, topic_records


def controller(**settings: str) -> Controller:
    config = BrokerConfig({"node.id": "1", **{k.replace("_", "."): v for k, v in settings.items()}})
    return Controller(config, 1, random.Random(3))


def test_new_cluster_begins_with_levels_and_min_isr() -> None:
    new = controller(min_insync_replicas="2")
    records = new.decide_start(initial_records(), transaction_open=False)
    assert records[:-1] == initial_records()
    assert records[-1] == ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="2"
    )


def test_without_eligible_leaders_min_isr_is_not_stored() -> None:
    levels = [FeatureLevelRecord(name="metadata.version", feature_level=21)]
    assert controller().decide_start(levels, transaction_open=False) == levels


def test_existing_cluster_begins_with_nothing() -> None:
    loaded = controller()
    loaded.image = replayed(features())
    assert loaded.decide_start(initial_records(), transaction_open=False) == []


def test_open_transaction_is_aborted_first() -> None:
    loaded = controller()
    loaded.image = replayed(features())
    (abort,) = loaded.decide_start(initial_records(), transaction_open=True)
    assert isinstance(abort, AbortTransactionRecord)
    image = loaded.replayed([abort, broker_record(1), *topic_records("whole")], 12, 2).image
    assert list(image.topics.by_name) == ["whole"]
    assert (image.offset, image.epoch) == (12, 2)
    assert loaded.image.topics.by_name == {}, "the image moves when the runtime appends"


def test_rights_are_those_of_the_image() -> None:
    """Entries that are committed when a leadership begins, and those that are added and removed later."""
    first, second = (
        AccessControlEntryRecord(
            id=uuid.UUID(int=number),
            resource_type=2,
            resource_name=f"t{number}",
            pattern_type=3,
            principal="User:a",
            host="*",
            operation=3,
            permission_type=3,
        )
        for number in (1, 2)
    )
    made = controller()
    made.reset(replayed([first]))
    assert [made.acls.contains(each) for each in (first, second)] == [True, False]
    for record in (second, RemoveAccessControlEntryRecord(id=first.id)):
        made.advance(made.replayed([record], made.image.offset + 1, 1))
    assert [made.acls.contains(each) for each in (first, second)] == [False, True]
