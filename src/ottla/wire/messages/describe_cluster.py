"""The DescribeCluster request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DescribeClusterRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=60, versions="0-2", flexible="0+")

    include_cluster_authorized_operations: Annotated[bool, F("bool", "0+")] = False
    endpoint_type: Annotated[int, F("int8", "1+")] = 1
    include_fenced_brokers: Annotated[bool, F("bool", "2+")] = False


class DescribeClusterBroker(Message):
    broker_id: Annotated[int, F("int32", "0+")] = 0
    host: Annotated[str, F("string", "0+")] = ""
    port: Annotated[int, F("int32", "0+")] = 0
    rack: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    is_fenced: Annotated[bool, F("bool", "2+")] = False


class DescribeClusterResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=60, versions="0-2", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = None
    endpoint_type: Annotated[int, F("int8", "1+")] = 1
    cluster_id: Annotated[str, F("string", "0+")] = ""
    controller_id: Annotated[int, F("int32", "0+")] = -1
    brokers: Annotated[list[DescribeClusterBroker], F("[]struct", "0+")] = []
    cluster_authorized_operations: Annotated[int, F("int32", "0+")] = -2147483648
