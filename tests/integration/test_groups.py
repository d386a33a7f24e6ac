"""Consumer groups of the Python clients on a real broker: members come and go, the broker dies and is back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MakeBroker
from tests.support.group_storm import Client, broker_settings, python_client, storm

SESSION_MS = 6_000
CLIENTS = [
    pytest.param(python_client("confluent", "range"), id="confluent-range"),
    pytest.param(python_client("confluent", "cooperative"), id="confluent-cooperative"),
    pytest.param(python_client("confluent", "consumer"), id="confluent-consumer"),
    pytest.param(python_client("aio", "range"), id="aiokafka"),
    pytest.param(python_client("kafka_python", "range"), id="kafka-python-range"),
    pytest.param(python_client("kafka_python", "cooperative"), id="kafka-python-cooperative"),
]


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_keeps_its_promises_in_a_storm(
    make_broker: MakeBroker, tmp_path: Path, client: Client
) -> None:
    broker = make_broker(broker_settings(SESSION_MS))
    storm(broker, tmp_path, [client], partitions=8, size=2, session_ms=SESSION_MS)
