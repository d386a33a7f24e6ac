"""The maximal size of batches: read once, and again after an error."""

from __future__ import annotations

from array import array

import pytest

from ottla.client.raw import Cluster, RawProducer, Refused
from ottla.records import columns
from ottla.wire.messages.describe_configs import DescribeConfigsRequest

from .two_brokers import TP, TwoBrokers, batches_of


def questions(brokers: TwoBrokers) -> int:
    return sum(request is DescribeConfigsRequest for _, request in brokers.asked)


def test_the_limit_is_kept(brokers: TwoBrokers, cluster: Cluster) -> None:
    brokers.batch_limit = 5000
    assert [cluster.batch_limit("t") for _ in range(3)] == [5000] * 3
    assert questions(brokers) == 1


def test_a_limit_that_is_not_reported(brokers: TwoBrokers, cluster: Cluster) -> None:
    assert [cluster.batch_limit("t") for _ in range(3)] == [None] * 3
    assert questions(brokers) == 1


def test_a_batch_that_is_too_large_is_reported_and_the_limit_is_read_again(
    brokers: TwoBrokers, cluster: Cluster
) -> None:
    brokers.batch_limit = 5000
    assert cluster.batch_limit("t") == 5000
    brokers.batch_limit = 100
    producer = RawProducer(cluster)
    producer.init()
    (single,) = batches_of(1)
    producer.send(TP, [single])
    message = rf"the batch of a single record has {len(single)} bytes, more than max.message.bytes of topic t allows"
    with pytest.raises(Refused, match=message):
        producer.flush()
    assert cluster.batch_limit("t") == 100
    producer = RawProducer(cluster)
    producer.init()
    column = columns.BinaryColumn(array("i", range(0, 301, 100)).tobytes(), bytes(300))
    producer.send(TP, columns.encode(column, 3, timestamp_ms=1))
    with pytest.raises(
        Refused, match=r"a batch of 3 records has .* topic t allows: decrease kafka\.batch\.size"
    ):
        producer.flush()
