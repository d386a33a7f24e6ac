"""Internal topics are made with settings of their own."""

from __future__ import annotations

import pytest

from ottla.broker.coordination.internal_topics import creation
from ottla.config.broker import BrokerConfig
from ottla.metadata.topic_names import INTERNAL_TOPICS


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
def test_internal_topics_have_numbers_and_settings_of_their_own(name: str) -> None:
    topic = creation(name, BrokerConfig({}))
    assert (topic.num_partitions, topic.replication_factor) == (50, 3 if name == "__share_group_state" else 1)
    assert {entry.name: entry.value for entry in topic.configs}["segment.bytes"] == "104857600"


def test_offsets_are_compacted_and_as_many_as_configured() -> None:
    config = BrokerConfig({"offsets.topic.num.partitions": "7", "offsets.topic.replication.factor": "1"})
    topic = creation("__consumer_offsets", config)
    assert (topic.num_partitions, topic.replication_factor) == (7, 1)
    assert {entry.name: entry.value for entry in topic.configs}["cleanup.policy"] == "compact"


def test_other_topics_take_the_defaults() -> None:
    topic = creation("mine", BrokerConfig({}))
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, [])
