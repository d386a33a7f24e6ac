"""Errors of a parallel consumer; each message describes what to do.

A handler may raise `Unprocessable`; `ParallelConsumer.run` raises the others.
"""

from __future__ import annotations

from ottla.base.errors import OttlaError


class Unprocessable(Exception):
    """Raised by a handler for a record that must not be retried; it becomes a dead letter at once."""


class ParallelConsumerError(OttlaError):
    """Base class of the errors that end `ParallelConsumer.run`."""


class RecordFailed(ParallelConsumerError):
    """A record failed permanently and there is no dead-letter topic; the cause is the error of the handler."""


class DeadLetterFailed(ParallelConsumerError):
    """A dead letter was not acknowledged; its record is unfinished and will be delivered again."""


class ConsumerFailed(ParallelConsumerError):
    """The Kafka consumer cannot continue: a fatal error, missing authorization, or an offset that does not exist."""
