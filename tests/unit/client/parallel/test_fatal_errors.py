"""Permanent errors end the consumer with advice; temporary ones do not."""

from __future__ import annotations

from confluent_kafka import KafkaError

from ottla.client.parallel.fatal_errors import fatal_error


def test_an_error_that_the_user_must_correct_has_advice() -> None:
    failure = fatal_error(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    assert "READ the group" in str(failure)


def test_a_fatal_error_ends_the_consumer() -> None:
    assert fatal_error(KafkaError(KafkaError._FATAL)) is not None
    assert "fenced" in str(fatal_error(KafkaError(KafkaError.FENCED_INSTANCE_ID, "fenced", fatal=True)))


def test_a_temporary_error_does_not_end_the_consumer() -> None:
    assert fatal_error(KafkaError(KafkaError._TRANSPORT)) is None
    assert fatal_error(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)) is None
