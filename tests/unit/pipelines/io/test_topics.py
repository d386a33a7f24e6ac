"""The connection for creating topics: taken from the options of the connector, in any spelling."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.base.errors import ErrorCode, LocalError
from ottla.client.raw import ClientSettings, Refused
from ottla.client.raw.settings import Sasl
from ottla.pipelines import topic
from ottla.pipelines.io import topics

JAVA = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="se\\"cret";'
    ),
    "kafka.ssl.truststore.location": "ca.pem",
    "maxOffsetsPerTrigger": "5",
}
LIBRDKAFKA = {
    "kafka.security.protocol": "sasl_ssl",
    "kafka.sasl.mechanisms": "SCRAM-SHA-512",
    "kafka.sasl.username": "ann",
    "kafka.sasl.password": 'se"cret',
    "kafka.ssl.ca.location": "ca.pem",
}


class Cluster:
    """One that has no topics and may refuse to make one."""

    asked: list[ClientSettings]

    def __init__(self, settings: ClientSettings, **_: object) -> None:
        self.asked.append(settings)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def topics(self, _: Any) -> dict[str, Any]:
        return {}


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> type[Cluster]:
    monkeypatch.setattr(Cluster, "asked", [], raising=False)
    monkeypatch.setattr(topics, "Cluster", Cluster)
    return Cluster


@pytest.mark.parametrize("options", [JAVA, LIBRDKAFKA])
def test_a_secured_cluster_is_reached_in_either_spelling(
    cluster: type[Cluster], options: dict[str, str]
) -> None:
    topics.partitions_of("b:1", ["t"], options)
    (settings,) = cluster.asked
    assert settings.bootstrap == (("b", 1),)
    assert settings.tls is not None
    assert settings.sasl == Sasl("SCRAM-SHA-512", "ann", 'se"cret')
    assert settings.tls.truststore.location == "ca.pem"


def test_a_refusal_is_reported_with_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise Refused("making topic t", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    monkeypatch.setattr(topics, "ensure_topic", refuse)
    with pytest.raises(LocalError, match=r"cannot create topic t: .*TOPIC_AUTHORIZATION_FAILED"):
        topics.create_missing("b:1", [topic("t")], {})
