"""Which errors of the consumer below end it, and what the user can do about each.

librdkafka mends most errors itself and only tells of them. What it tells again and again until somebody acts is in
the table here.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

from ottla.client.parallel.errors import ConsumerFailed

_ADVICE: dict[int, str] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "let this principal READ and DESCRIBE the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "let this principal READ the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "this principal is not allowed to do that in the cluster",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check the sasl.* settings",
    KafkaError._AUTHENTICATION: "check the sasl.* and ssl.* settings",
    KafkaError.INVALID_GROUP_ID: "choose another group.id",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: (
        "give partition.assignment.strategy the value that the other members of the group have"
    ),
    KafkaError.GROUP_MAX_SIZE_REACHED: "the group has as many members as the cluster allows",
    KafkaError.INVALID_SESSION_TIMEOUT: "choose a session.timeout.ms within the cluster's limits",
    KafkaError._AUTO_OFFSET_RESET: (
        "there is no valid place to begin: set auto.offset.reset to earliest or latest, or commit an offset that"
        " exists"
    ),
}


def failure_of(error: KafkaError) -> ConsumerFailed | None:
    """The exception an error ends the consumer with; None when it goes on by itself."""
    if error.code() in _ADVICE:
        return ConsumerFailed(f"{error.str()}: {_ADVICE[error.code()]}")
    if error.fatal() or error.code() == KafkaError._FATAL:
        return ConsumerFailed(f"the consumer cannot go on: {error.str()}. Start a new one")
    return None
