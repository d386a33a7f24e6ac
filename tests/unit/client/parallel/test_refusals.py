"""Errors that last end the consumer with advice; those that pass do not."""

from __future__ import annotations

from confluent_kafka import KafkaError

from ottla.client.parallel.refusals import failure_of


def test_an_error_that_needs_the_user_says_what_to_do() -> None:
    failure = failure_of(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert "READ the group" in str(failure)


def test_a_fatal_error_ends_the_consumer() -> None:
    assert failure_of(KafkaError(KafkaError._FATAL)) is not None
    assert "fenced" in str(failure_of(KafkaError(KafkaError.FENCED_INSTANCE_ID, "fenced", fatal=True)))


def test_an_error_that_passes_does_not() -> None:
    assert failure_of(KafkaError(KafkaError._TRANSPORT)) is None
    assert failure_of(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)) is None
