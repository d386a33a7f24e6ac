"""Payloads of control records in logs. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import field

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class ControlRecordTypeSchema(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0", flexible="none")

    type: Annotated[int, F("int16", "0+")] = 0


class EndTxnMarker(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0", flexible="none")

    coordinator_epoch: Annotated[int, F("int32", "0+")] = 0


class KRaftVersionRecord(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0", flexible="0+")

    version: Annotated[int, F("int16", "0+")] = 0
    kraft_version: Annotated[int, F("int16", "0+")] = 0


class Voter(Message):
    voter_id: Annotated[int, F("int32", "0+")] = 0
    voter_directory_id: Annotated[Uuid, F("uuid", "1+")] = ZERO_UUID


class LeaderChangeMessage(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0-1", flexible="0+")

    version: Annotated[int, F("int16", "0+")] = 0
    leader_id: Annotated[int, F("int32", "0+")] = 0
    voters: Annotated[list[Voter], F("[]struct", "0+")] = []
    granting_voters: Annotated[list[Voter], F("[]struct", "0+")] = []


class SnapshotFooterRecord(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0", flexible="0+")

    version: Annotated[int, F("int16", "0+")] = 0


class SnapshotHeaderRecord(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0", flexible="0+")

    version: Annotated[int, F("int16", "0+")] = 0
    last_contained_log_timestamp: Annotated[int, F("int64", "0+")] = 0


class Endpoint(Message):
    name: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("uint16", "0+")] = 0


class KRaftVersionFeature(Message):
    min_supported_version: Annotated[int, F("int16", "0+")] = 0
    max_supported_version: Annotated[int, F("int16", "0+")] = 0


class VotersRecordVoter(Message):
    voter_id: Annotated[int, F("int32", "0+")] = 0
    voter_directory_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    endpoints: Annotated[list[Endpoint], F("[]struct", "0+")] = []
    kraft_version_feature: Annotated[KRaftVersionFeature, F("struct", "0+")] = field(
        default_factory=KRaftVersionFeature
    )


class VotersRecord(Message):
    SPEC: ClassVar[Spec] = Spec("data", versions="0", flexible="0+")

    version: Annotated[int, F("int16", "0+")] = 0
    voters: Annotated[list[VotersRecordVoter], F("[]struct", "0+")] = []
