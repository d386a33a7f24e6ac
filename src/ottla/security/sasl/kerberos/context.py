"""The port of a security context of GSSAPI. `library` has the adapter of the package `gssapi`."""

from __future__ import annotations

from typing import Protocol

from ottla.security.sasl.exchange import SaslError


class ContextFailed(SaslError):
    """A token or a wrapped message was not accepted, or no token could be made.

    `retriable` if the client may have done nothing wrong: its ticket is not valid yet according to the clock of this
    node, or its token has the same time as another one.
    """

    def __init__(self, message: str, *, retriable: bool = False) -> None:
        super().__init__(message)
        self.retriable = retriable


class Context(Protocol):
    """One side of a security context. All methods raise ContextFailed. Calls can block: files and networks are used."""

    @property
    def complete(self) -> bool:
        """Whether the context is established."""
        ...

    @property
    def initiator(self) -> str:
        """The principal of the client, after the context is established."""
        ...

    def step(self, token: bytes | None) -> bytes | None:
        """Process a token of the other side; return the token for it, None without one."""
        ...

    def wrap(self, message: bytes) -> bytes:
        """The message with proof of its origin, not encrypted."""
        ...

    def unwrap(self, message: bytes) -> bytes:
        """The message that the other side has wrapped."""
        ...
