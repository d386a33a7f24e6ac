"""Errors of the raw client; their texts are written for the users of pipelines.

The client repeats its request after `ConnectionLost`, `RetriableError` and `Throttled`; they reach a caller only as
the cause of `TimedOut`. All others are final: a further attempt would fail in the same way.
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode, OttlaError


class ClientError(OttlaError):
    """Base class of the errors of this client."""


class ConnectionLost(ClientError):
    """A connection could not be opened, or was closed."""


class RetriableError(ClientError):
    """A response with an error code that is retriable, possibly on another broker."""


class Throttled(RetriableError):
    """The client has exceeded its quota and must wait for `seconds`."""

    def __init__(self, what: str, seconds: float) -> None:
        super().__init__(f"{what}: throttled for {seconds:g} s because the quota is exceeded")
        self.seconds = seconds


class TimedOut(ClientError):
    """The call did not succeed within its timeout; the text contains the last error."""


class ClusterUnreachable(TimedOut):
    """No broker could be reached within the timeout."""


class ClusterReplaced(ClientError):
    """Another cluster responds at the same addresses: producer ids and offsets of the first are not valid there."""


class AuthenticationFailed(ClientError):
    """The broker rejected the credentials of the client, or the client rejected the certificate of the broker."""


class Unsupported(ClientError):
    """The brokers serve no version of the request that this client supports."""


class Refused(ClientError):
    """A response with an error code that is not retriable."""

    def __init__(self, what: str, code: int, message: str | None = None) -> None:
        super().__init__(f"{what}: {error_name(code)}" + (f" ({message})" if message else ""))
        self.code = code


class OffsetOutOfRange(Refused):
    """The offset is not in the log: it was deleted, or it is not written yet."""


class UnknownTopic(Refused):
    """The topic or partition does not exist."""


class Fenced(Refused):
    """A newer producer with the same transactional id has fenced this one."""


def error_name(code: int) -> str:
    """The name of an error code."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def is_retriable(code: int) -> bool:
    """Whether an error code is retriable. Unknown codes are not."""
    try:
        return ErrorCode(code).retriable
    except ValueError:
        return False
