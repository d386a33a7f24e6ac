"""The ApiVersions request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class ApiVersionsRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=18, versions="0-4", flexible="3+")

    client_software_name: Annotated[str, F("string", "3+", ignorable=True)] = ""
    client_software_version: Annotated[str, F("string", "3+", ignorable=True)] = ""


class ApiVersion(Message):
    api_key: Annotated[int, F("int16", "0+")] = 0
    min_version: Annotated[int, F("int16", "0+")] = 0
    max_version: Annotated[int, F("int16", "0+")] = 0


class SupportedFeatureKey(Message):
    name: Annotated[str, F("string", "3+")] = ""
    min_version: Annotated[int, F("int16", "3+")] = 0
    max_version: Annotated[int, F("int16", "3+")] = 0


class FinalizedFeatureKey(Message):
    name: Annotated[str, F("string", "3+")] = ""
    max_version_level: Annotated[int, F("int16", "3+")] = 0
    min_version_level: Annotated[int, F("int16", "3+")] = 0


class ApiVersionsResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=18, versions="0-4", flexible="3+")

    error_code: Annotated[int, F("int16", "0+")] = 0
    api_keys: Annotated[list[ApiVersion], F("[]struct", "0+")] = []
    throttle_time_ms: Annotated[int, F("int32", "1+", ignorable=True)] = 0
    supported_features: Annotated[
        list[SupportedFeatureKey], F("[]struct", "3+", tag=0, tagged="3+", ignorable=True)
    ] = []
    finalized_features_epoch: Annotated[int, F("int64", "3+", tag=1, tagged="3+", ignorable=True)] = -1
    finalized_features: Annotated[
        list[FinalizedFeatureKey], F("[]struct", "3+", tag=2, tagged="3+", ignorable=True)
    ] = []
    zk_migration_ready: Annotated[bool, F("bool", "3+", tag=3, tagged="3+", ignorable=True)] = False
