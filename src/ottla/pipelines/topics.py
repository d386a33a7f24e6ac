"""Making the topics that a pipeline declares and the cluster does not have yet.

A topic that exists is left as it is, whatever its settings: changing it is an operator's decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ottla.base.errors import LocalError
from ottla.pipelines.declare import Topic

PATIENCE_S: Final = 30.0
_BROKERS_DEFAULT: Final = -1
_CLIENT: Final = "kafka."


def create_missing(bootstrap: str, topics: Iterable[Topic], options: Mapping[str, str]) -> dict[str, int]:
    """How many partitions each topic has, after making those that were not there.

    Raises `LocalError` when the cluster does not answer or refuses.
    """
    admin = AdminClient({**_client_settings(options), "bootstrap.servers": bootstrap, "log_level": 0})
    wanted = {topic.name: topic for topic in topics}
    known = _partitions(admin, bootstrap)
    asked = [
        NewTopic(
            topic.name, topic.partitions or _BROKERS_DEFAULT, _BROKERS_DEFAULT, config=dict(topic.config)
        )
        for topic in wanted.values()
        if topic.name not in known
    ]
    if asked:
        for name, future in admin.create_topics(asked, operation_timeout=PATIENCE_S).items():
            try:
                future.result(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise LocalError(f"topic {name} can't be made: {error.args[0].str()}") from error
        known = _partitions(admin, bootstrap)
    return {name: known.get(name, wanted[name].partitions or 1) for name in wanted}


def _partitions(admin: AdminClient, bootstrap: str) -> dict[str, int]:
    try:
        found = admin.list_topics(timeout=PATIENCE_S).topics
    except KafkaException as error:
        raise LocalError(f"no answer from {bootstrap}: {error.args[0].str()}") from error
    return {name: len(topic.partitions) for name, topic in found.items()}


def _client_settings(options: Mapping[str, str]) -> dict[str, str]:
    """What the client needs of a connector's options, in librdkafka's spelling."""
    chosen = ("security.protocol", "sasl.", "ssl.", "client.id")
    settings = {key.removeprefix(_CLIENT): value for key, value in options.items() if key.startswith(_CLIENT)}
    return {
        key: value for key, value in settings.items() if key.startswith(chosen) and key != "sasl.jaas.config"
    }
