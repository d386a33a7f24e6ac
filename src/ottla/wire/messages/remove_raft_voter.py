"""The RemoveRaftVoter request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class RemoveRaftVoterRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=81, versions="0", flexible="0+")

    cluster_id: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    voter_id: Annotated[int, F("int32", "0+")] = 0
    voter_directory_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID


class RemoveRaftVoterResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=81, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+", ignorable=True)] = ""
