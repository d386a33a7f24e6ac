"""The BrokerRegistration request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.base.ids import ZERO_UUID, Uuid
from ottla.wire.schema import F, Message, Spec


class Listener(Message):
    name: Annotated[str, F("string", "0+")] = ""
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("uint16", "0+")] = 0
    security_protocol: Annotated[int, F("int16", "0+")] = 0


class Feature(Message):
    name: Annotated[str, F("string", "0+")] = ""
    min_supported_version: Annotated[int, F("int16", "0+")] = 0
    max_supported_version: Annotated[int, F("int16", "0+")] = 0


class BrokerRegistrationRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=62, versions="0-4", flexible="0+")

    broker_id: Annotated[int, F("int32", "0+")] = 0
    cluster_id: Annotated[str, F("string", "0+")] = ""
    incarnation_id: Annotated[Uuid, F("uuid", "0+")] = ZERO_UUID
    listeners: Annotated[list[Listener], F("[]struct", "0+")] = []
    features: Annotated[list[Feature], F("[]struct", "0+")] = []
    rack: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    is_migrating_zk_broker: Annotated[bool, F("bool", "1+")] = False
    log_dirs: Annotated[list[Uuid], F("[]uuid", "2+", ignorable=True)] = []
    previous_broker_epoch: Annotated[int, F("int64", "3+", ignorable=True)] = -1


class BrokerRegistrationResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=62, versions="0-4", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    broker_epoch: Annotated[int, F("int64", "0+")] = -1
