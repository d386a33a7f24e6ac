"""The BrokerHeartbeat request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import Uuid
from ottla.wire.schema import F, Message, Spec


class BrokerHeartbeatRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=63, versions="0-2", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = -1
    current_metadata_offset: Annotated[int, F("int64", "0+")] = 0
    want_fence: Annotated[bool, F("bool", "0+")] = False
    want_shut_down: Annotated[bool, F("bool", "0+")] = False
    offline_log_dirs: Annotated[list[Uuid], F("[]uuid", "1+", tag=0, tagged="1+")] = []
    cordoned_log_dirs: Annotated[list[Uuid] | None, F("[]uuid", "2+", nullable="2+", tag=1, tagged="2+")] = (
        None
    )


class BrokerHeartbeatResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=63, versions="0-2", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    is_caught_up: Annotated[bool, F("bool", "0+")] = False
    is_fenced: Annotated[bool, F("bool", "0+")] = True
    should_shut_down: Annotated[bool, F("bool", "0+")] = False
