"""Decisions about feature levels: the initial levels of a new cluster, and UpdateFeatures.

`kraft.version` belongs to the quorum: its level is in control records, not in the metadata, and is passed in.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.controller.decision import Decision
from ottla.metadata.features import KRAFT_VERSION, SUPPORTED_FEATURES
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.records import FeatureLevelRecord
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.wire.schema import Message

# In the order of a newly formatted directory.
INITIAL_LEVELS: Final = {
    METADATA_VERSION: 30,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "share.version": 1,
    "streams.version": 1,
    "transaction.version": 2,
}

_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_RANGES: Final = {feature.name: feature for feature in SUPPORTED_FEATURES}


def initial_records() -> list[FeatureLevelRecord]:
    """The initial feature levels of a new cluster."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_LEVELS.items()]


def decide_update(
    image: MetadataImage, request: UpdateFeaturesRequest, api_version: int, kraft_version: int
) -> Decision[UpdateFeaturesResponse]:
    """Change all levels of the request, or none."""
    levels = {**image.features, KRAFT_VERSION: kraft_version}
    updates = {update.feature: update for update in request.feature_updates}
    records: list[Message] = []
    for update in updates.values():
        current = levels.get(update.feature, 0)
        complaint = _complaint(update, current, api_version)
        if complaint is not None:
            text = f"nothing is changed: {update.feature} {update.max_version_level}: {complaint}"
            return Decision([], refuse_update(ErrorCode.INVALID_UPDATE_VERSION, text))
        if update.max_version_level != current:
            records.append(FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level))
    # Only versions 0 and 1 have results; Kafka reports success with this text.
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message="NONE")
        for update in request.feature_updates
    ]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision([] if request.validate_only else records, response)


def _complaint(update: FeatureUpdateKey, current: int, api_version: int) -> str | None:
    """The reason for which a level is refused; None if it is allowed."""
    level = update.max_version_level
    known = _RANGES.get(update.feature)
    upgrade_type = update.upgrade_type
    if api_version == 0:
        upgrade_type = _SAFE_DOWNGRADE if update.allow_downgrade else _UPGRADE
    if upgrade_type not in (_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE):
        return f"unknown upgrade type {upgrade_type}"
    if known is None:
        return "this release does not have the feature"
    if not known.min_version <= level <= known.max_version:
        return f"this release supports levels {known.min_version} to {known.max_version}"
    if update.feature == KRAFT_VERSION and level != current:
        return f"the level of a quorum of one cannot be changed; it is {current}"
    if level < current and (update.feature == METADATA_VERSION or upgrade_type == _UPGRADE):
        return f"the level is {current}; this upgrade type does not allow a lower one"
    return None


def refuse_update(code: ErrorCode, message: str | None = None) -> UpdateFeaturesResponse:
    """An error for the whole request."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)
