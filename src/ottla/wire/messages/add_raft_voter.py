"""The AddRaftVoter request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class Listener(Message):
    name: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("uint16", "0+")] = 0


class AddRaftVoterRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=80, versions="0-1", flexible="0+")

    cluster_id: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    timeout_ms: Annotated[int, F("int32", "0+")] = 0
    voter_id: Annotated[int, F("int32", "0+")] = 0
    voter_directory_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    listeners: Annotated[list[Listener], F("[]struct", "0+")] = []
    ack_when_committed: Annotated[bool, F("bool", "1+")] = True


class AddRaftVoterResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=80, versions="0-1", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+", ignorable=True)] = ""
