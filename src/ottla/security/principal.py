"""Principals: the authenticated identity of a client, and its form in Envelope requests.

`Principal.text` is the form of ACLs and `super.users`: type, colon, name. `encode` and `decode` use the message
DefaultPrincipalData, version 0, behind its version as int16: compact type, compact name, token flag, tagged fields.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, NamedTuple

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec
from ottla.wire.schema import F, Message, Spec

USER: Final = "User"
_VERSION: Final = b"\0\0"


class Principal(NamedTuple):
    """A type, always `User` in Kafka, and a name."""

    type: str
    name: str
    token_authenticated: bool = False
    """Whether the client authenticated with a delegation token."""

    @property
    def text(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal(USER, "ANONYMOUS")
"""The principal of clients of a listener without authentication."""

NODE: Final = Principal("Node", "this")
"""The principal of requests that a node makes to its own controller. Only this object is it, not an equal one."""


def user(name: str) -> Principal:
    """The principal of a user."""
    return Principal(USER, name)


def parse(text: str) -> Principal:
    """Read `Type:name`; ValueError if a part is missing."""
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"principal {text!r}; expected Type:name, for example User:alice")
    return Principal(kind, name)


class DefaultPrincipalData(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0", flexible="0+")

    type: Annotated[str, F("string", "0+")] = ""
    name: Annotated[str, F("string", "0+")] = ""
    token_authenticated: Annotated[bool, F("bool", "0+")] = False


def encode(principal: Principal) -> bytes:
    """The form of a principal in an Envelope request."""
    return _VERSION + codec.encode(DefaultPrincipalData(**principal._asdict()), 0)


def decode(data: bytes) -> Principal:
    """Read the principal of an Envelope request; RemoteProtocolError if the bytes are not one."""
    if data[:2] != _VERSION:
        raise RemoteProtocolError(f"principal data of version {data[:2].hex()}; supported: 0")
    message = codec.decode(DefaultPrincipalData, memoryview(data), 0, start=2)
    return Principal(message.type, message.name, message.token_authenticated)
