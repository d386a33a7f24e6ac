"""The error of a request to another node, with the reason for failure detection."""

from __future__ import annotations

from enum import Enum

from ottla.base.errors import OttlaError


class Reason(Enum):
    """Why a request or a connection failed.

    REFUSED and CLOSED are evidence that the other process has ended: its operating system closes the sockets of a
    killed process at once. The evidence can be wrong (a full backlog, an idle connection that was closed, a restart).
    TIMED_OUT and UNREACHABLE are weaker: they also occur if the network fails or the other node is slow.
    """

    REFUSED = "refused"
    """Nothing listens at the address."""
    UNREACHABLE = "unreachable"
    """The connection could not be opened for another reason, such as an unknown host name."""
    CLOSED = "closed"
    """The other side closed or reset the connection."""
    TIMED_OUT = "timed out"
    """The connection was not established, or a response did not arrive, in time."""
    PROTOCOL_ERROR = "protocol error"
    """The other side sent bytes that the protocol does not allow."""
    AUTHENTICATION_FAILED = "authentication failed"
    """The TLS handshake failed, or one side did not accept the credentials of the other."""
    UNSUPPORTED_VERSION = "unsupported version"
    """Both sides have no version of the API in common. The connection stays open."""
    NOT_SERVED = "not served"
    """The other side does not serve the API, such as a controller without its metadata. The connection stays open."""
    OVERLOADED = "overloaded"
    """Too many requests or bytes are in flight on this connection. The request was not sent."""
    UNKNOWN_NODE = "unknown node"
    """The node has no address. The request was not sent."""
    SHUTDOWN = "shutdown"
    """This side closed the connection."""


class PeerError(OttlaError):
    """A request to another node failed, or a connection to it was lost.

    `sent` is False only if the other node cannot have received the request.
    """

    def __init__(self, reason: Reason, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.sent = sent
