"""The producers of the fault tests go on when their client does not."""

from __future__ import annotations

import pytest
from aiokafka.structs import BrokerMetadata

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.fault import load
from tests.fault.load import AiokafkaLoad
from tests.support.clients import create_topic, fresh
from tests.support.waiting import wait_until


def forget_brokers(running: AiokafkaLoad) -> None:
    """Let the client know one broker only, which does not respond."""
    client = running._producer.client
    client.cluster._brokers = {0: BrokerMetadata(0, "127.0.0.1", free_port(), None)}
    for connection in list(client._conns.values()):
        connection.close()


def test_an_aiokafka_producer_that_reaches_no_broker_is_replaced(
    broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "_AIOKAFKA_STALL_S", 0.5)
    monkeypatch.setattr(load, "_AIOKAFKA_REQUEST_S", 1)
    topic = create_topic(broker.bootstrap, fresh("load"), 1)
    running = AiokafkaLoad("AiokafkaLoad", broker.bootstrap, topic, 1, rate=100)
    running.start()
    wait_until(lambda: running.acknowledged > 0, "a first record")
    running._loop.call_soon_threadsafe(forget_brokers, running)
    wait_until(lambda: running.restarts > 0, "another producer")
    before = running.acknowledged
    wait_until(lambda: running.acknowledged > before, "a record of the other producer")
    running.stop()
    assert running.failure is None
