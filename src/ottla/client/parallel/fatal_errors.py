"""Errors of librdkafka that end the consumer, with advice for the user.

librdkafka recovers from most errors itself and only reports them. The errors listed here are reported again and again
until the user corrects the cause.
"""

from __future__ import annotations

from confluent_kafka import KafkaError

from ottla.client.parallel.errors import ConsumerFailed

_ADVICE: dict[int, str] = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "allow this principal to READ and DESCRIBE the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "allow this principal to READ the group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "this principal is not allowed to do that in the cluster",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check the sasl.* settings",
    KafkaError._AUTHENTICATION: "check the sasl.* and ssl.* settings",
    KafkaError.INVALID_GROUP_ID: "choose another group.id",
    KafkaError.INCONSISTENT_GROUP_PROTOCOL: (
        "set partition.assignment.strategy to the value of the other members of the group"
    ),
    KafkaError.GROUP_MAX_SIZE_REACHED: "the group has as many members as the cluster allows",
    KafkaError.INVALID_SESSION_TIMEOUT: "choose a session.timeout.ms within the cluster's limits",
    KafkaError._AUTO_OFFSET_RESET: (
        "there is no valid offset to start from: set auto.offset.reset to earliest or latest, or commit an offset that"
        " exists"
    ),
}


def fatal_error(error: KafkaError) -> ConsumerFailed | None:
    """The exception that ends the consumer; None if librdkafka recovers from the error."""
    if error.code() in _ADVICE:
        return ConsumerFailed(f"{error.str()}: {_ADVICE[error.code()]}")
    if error.fatal() or error.code() == KafkaError._FATAL:
        return ConsumerFailed(f"the consumer cannot continue: {error.str()}. Start a new one")
    return None
