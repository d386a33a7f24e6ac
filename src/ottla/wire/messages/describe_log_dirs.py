"""The DescribeLogDirs request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class DescribableLogDirTopic(Message):
    topic: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[int], F("[]int32", "0+")] = []


class DescribeLogDirsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=35, versions="1-5", flexible="2+")

    topics: Annotated[list[DescribableLogDirTopic] | None, F("[]struct", "0+", nullable="0+")] = []


class DescribeLogDirsPartition(Message):
    partition_index: Annotated[int, F("int32", "0+")] = 0
    partition_size: Annotated[int, F("int64", "0+")] = 0
    offset_lag: Annotated[int, F("int64", "0+")] = 0
    is_future_key: Annotated[bool, F("bool", "0+")] = False


class DescribeLogDirsTopic(Message):
    name: Annotated[str, F("string", "0+")] = ""
    partitions: Annotated[list[DescribeLogDirsPartition], F("[]struct", "0+")] = []


class DescribeLogDirsResult(Message):
    error_code: Annotated[int, F("int16", "0+")] = 0
    log_dir: Annotated[str, F("string", "0+")] = ""
    topics: Annotated[list[DescribeLogDirsTopic], F("[]struct", "0+")] = []
    total_bytes: Annotated[int, F("int64", "4+", ignorable=True)] = -1
    usable_bytes: Annotated[int, F("int64", "4+", ignorable=True)] = -1
    is_cordoned: Annotated[bool, F("bool", "5+", ignorable=True)] = False


class DescribeLogDirsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=35, versions="1-5", flexible="2+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "3+", ignorable=True)] = 0
    results: Annotated[list[DescribeLogDirsResult], F("[]struct", "0+")] = []
