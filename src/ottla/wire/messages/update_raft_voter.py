"""The UpdateRaftVoter request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class Listener(Message):
    name: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("uint16", "0+")] = 0


class KRaftVersionFeature(Message):
    min_supported_version: Annotated[int, F("int16", "0+")] = 0
    max_supported_version: Annotated[int, F("int16", "0+")] = 0


class UpdateRaftVoterRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=82, versions="0", flexible="0+")

    cluster_id: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    current_leader_epoch: Annotated[int, F("int32", "0+")] = 0
    voter_id: Annotated[int, F("int32", "0+")] = 0
    voter_directory_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    listeners: Annotated[list[Listener], F("[]struct", "0+")] = []
    kraft_version_feature: Annotated[KRaftVersionFeature, F("struct", "0+")] = field(
        default_factory=KRaftVersionFeature
    )


class CurrentLeader(Message):
    leader_id: Annotated[int, F("int32", "0+")] = -1
    leader_epoch: Annotated[int, F("int32", "0+")] = -1
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("int32", "0+")] = 0


class UpdateRaftVoterResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=82, versions="0", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    current_leader: Annotated[CurrentLeader, F("struct", "0+", tag=0, tagged="0+")] = field(
        default_factory=CurrentLeader
    )
