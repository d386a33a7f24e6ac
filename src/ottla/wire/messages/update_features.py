"""The UpdateFeatures request and response, all versions. Made by tools/declare_messages.py."""

from __future__ import annotations

from typing import Annotated, ClassVar

from ottla.wire.schema import F, Message, Spec


class FeatureUpdateKey(Message):
    feature: Annotated[str, F("string", "0+")] = ""
    max_version_level: Annotated[int, F("int16", "0+")] = 0
    allow_downgrade: Annotated[bool, F("bool", "0")] = False
    upgrade_type: Annotated[int, F("int8", "1+")] = 1


class UpdateFeaturesRequest(Message):
    SPEC: ClassVar[Spec] = Spec("request", api_key=57, versions="0-2", flexible="0+")

    timeout_ms: Annotated[int, F("int32", "0+")] = 60000
    feature_updates: Annotated[list[FeatureUpdateKey], F("[]struct", "0+")] = []
    validate_only: Annotated[bool, F("bool", "1+")] = False


class UpdatableFeatureResult(Message):
    feature: Annotated[str, F("string", "0+")] = ""
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""


class UpdateFeaturesResponse(Message):
    SPEC: ClassVar[Spec] = Spec("response", api_key=57, versions="0-2", flexible="0+")

    throttle_time_ms: Annotated[int, F("int32", "0+")] = 0
    error_code: Annotated[int, F("int16", "0+")] = 0
    error_message: Annotated[str | None, F("string", "0+", nullable="0+")] = ""
    results: Annotated[list[UpdatableFeatureResult], F("[]struct", "0-1", ignorable=True)] = []
