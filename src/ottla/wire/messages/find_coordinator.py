"""The FindCoordinator request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class FindCoordinatorRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=10, versions="0-6", flexible="3+")

    key: Annotated[str, F("string", "0-3")] = ""
    key_type: Annotated[int, F("int8", "1+")] = 0
    coordinator_keys: Annotated[list[str], F("[]string", "4+")] = []


class Coordinator(Message):
    key: Annotated[str, F("string", "4+")] = ""
    node_id: Annotated[int, F("int32", "4+")] = 0
    host: Annotated[str, F("string", "4+")] = ""
    port: Annotated[int, F("int32", "4+")] = 0
    error_code: Annotated[int, F("int16", "4+")] = 0
    error_message: Annotated[str | None, F("string", "4+", nullable="4+", ignorable=True)] = ""


class FindCoordinatorResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=10, versions="0-6", flexible="3+")

    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    error_code: Annotated[int, F("int16", "0-3")] = 0
    error_message: Annotated[str | None, F("string", "1-3", nullable="1-3", ignorable=True)] = ""
    node_id: Annotated[int, F("int32", "0-3")] = 0
    host: Annotated[str, F("string", "0-3")] = ""
    port: Annotated[int, F("int32", "0-3")] = 0
    coordinators: Annotated[list[Coordinator], F("[]struct", "4+")] = []
