"""What a parallel consumer raises, each with a sentence that says what to do.

`Unprocessable` is the one a handler raises itself; the others come out of `ParallelConsumer.run`.
"""

from __future__ import annotations

from ottla.base.errors import OttlaError


class Unprocessable(Exception):
    """Raised by a handler: trying this record again is of no use, so it goes to the dead letters at once."""


class ParallelConsumerError(OttlaError):
    """Root of what ends `ParallelConsumer.run` other than a call of `stop`."""


class RecordFailed(ParallelConsumerError):
    """A record failed for good and there is no dead-letter topic to take it; the handler's error is the cause."""


class DeadLetterFailed(ParallelConsumerError):
    """A dead letter was not acknowledged; its record counts as unfinished and will come again."""


class ConsumerFailed(ParallelConsumerError):
    """The consumer below cannot go on: a fatal error, a refusal, a position that is gone."""
