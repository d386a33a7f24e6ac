"""Internal topics are made with settings of their own."""

from __future__ import annotations

import uuid

import pytest

from ottla.broker.coordination.internal_topics import creation
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import BrokerImage, MetadataImage
from ottla.metadata.topic_names import INTERNAL_TOPICS

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
VOTERS = {"controller.quorum.voters": "1@localhost:1,2@localhost:2,3@localhost:3"}


def image_with(brokers: int) -> MetadataImage:
    return MetadataImage(
        brokers={each: BrokerImage(each, 1, uuid.UUID(int=each)) for each in range(1, brokers + 1)}
    )


@pytest.mark.parametrize("name", sorted(INTERNAL_TOPICS))
@pytest.mark.parametrize(("brokers", "factor", "min_isr"), [(1, 1, 1), (2, 2, 2), (3, 3, 2), (7, 3, 2)])
def test_the_number_of_brokers_limits_the_default_numbers(
    name: str, brokers: int, factor: int, min_isr: int
) -> None:
    topic = creation(name, BrokerConfig({}), image_with(brokers))
    assert (topic.num_partitions, topic.replication_factor) == (50, factor)
    settings = {entry.name: entry.value for entry in topic.configs}
    assert settings["segment.bytes"] == "104857600"
    assert settings.get("min.insync.replicas", str(min_isr)) == str(min_isr)


def test_configured_numbers_are_not_limited() -> None:
    config = BrokerConfig(
        {
            "offsets.topic.num.partitions": "7",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.min.isr": "2",
        }
    )
    topic = creation(OFFSETS, config, image_with(1))
    assert (topic.num_partitions, topic.replication_factor) == (7, 3)
    assert {entry.name: entry.value for entry in topic.configs}["cleanup.policy"] == "compact"
    transactions = creation(TRANSACTIONS, config, image_with(1))
    assert transactions.replication_factor == 1
    assert {entry.name: entry.value for entry in transactions.configs}["min.insync.replicas"] == "2"


@pytest.mark.parametrize(
    ("roles", "factor"), [("broker,controller", 3), ("controller,broker", 3), ("broker", 1)]
)
def test_combined_nodes_that_have_not_registered_count(roles: str, factor: int) -> None:
    config = BrokerConfig(VOTERS | {"process.roles": roles})
    assert creation(OFFSETS, config, image_with(1)).replication_factor == factor


def test_other_topics_take_the_defaults() -> None:
    topic = creation("mine", BrokerConfig({}), image_with(3))
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, [])
