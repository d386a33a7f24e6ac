"""What can go wrong between this client and a cluster; the text is meant for the user of a pipeline.

`ConnectionLost`, `TryAgain` and `Throttled` are answered by another attempt and surface only as the reason of
`TimedOut`. All others are final: another attempt would end the same way.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode, OttlaError


class ClientError(OttlaError):
    """Root of this client's errors."""


class ConnectionLost(ClientError):
    """A connection could not be made, or ended in the middle."""


class TryAgain(ClientError):
    """A broker's answer that says: later, or elsewhere."""


class Throttled(TryAgain):
    """A broker has nothing for a client above its quota, for so many seconds."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: above the quota for {seconds:g} s")
        self.seconds = seconds


class TimedOut(ClientError):
    """It did not work within the time allowed; the text has the last reason."""


class ClusterUnreachable(TimedOut):
    """No broker could be reached within the time allowed."""


class ClusterReplaced(ClientError):
    """Another cluster answers where one was: ids and offsets of the first mean nothing, or something else, there."""


class AuthenticationFailed(ClientError):
    """The broker did not accept who we are, or we did not accept who the broker is."""


class Unsupported(ClientError):
    """The brokers are too old, or too new, for what was asked."""


class Refused(ClientError):
    """A broker said no, for good."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {code_name(code)}" + (f" ({message})" if message else ""))
        self.code = code


class OffsetOutOfRange(Refused):
    """The offset is not in the log: it was deleted already, or not written yet."""


class UnknownTopic(Refused):
    """There is no such topic or partition."""


class Fenced(Refused):
    """A newer producer with the same transactional id has taken over."""


def code_name(code: int) -> str:
    """An error code as people know it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def is_retriable(code: int) -> bool:
    """Whether another attempt may help; codes of the future say no."""
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False
