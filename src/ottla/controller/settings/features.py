"""Decisions about feature levels: the initial levels of a new cluster, and UpdateFeatures.

`kraft.version` belongs to the quorum: its level is in control records, not in the metadata, and is passed in.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.controller.decision import Decision
from ottla.metadata.features import KRAFT_VERSION, SUPPORTED_FEATURES
from ottla.metadata.image import METADATA_VERSION, FeatureRange, MetadataImage, ResourceType
from ottla.metadata.records import ConfigRecord, FeatureLevelRecord
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

_ELR: Final = "eligible.leader.replicas.version"
_MIN_ISR: Final = "min.insync.replicas"
_DISABLED: Final = FeatureRange("", 0, 0)
_METADATA_CHANGES: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})
"""The levels of metadata.version that have added records or fields: a lower level would lose them."""
_UPGRADE: Final = 1
_SAFE_DOWNGRADE: Final = 2
_UNSAFE_DOWNGRADE: Final = 3
_RANGES: Final = {feature.name: feature for feature in SUPPORTED_FEATURES}


def initial_records() -> list[FeatureLevelRecord]:
    """The initial feature levels of a new cluster."""
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in INITIAL_LEVELS.items()]


def decide_update(
    image: MetadataImage,
    request: UpdateFeaturesRequest,
    api_version: int,
    *,
    kraft_version: int,
    min_insync_replicas: str,
) -> Decision[UpdateFeaturesResponse]:
    """Change all levels of the request, or none; `min_insync_replicas` is the static setting of this node."""
    levels = {**image.features, KRAFT_VERSION: kraft_version}
    updates = {update.feature: update for update in request.feature_updates}
    records: list[Message] = []
    for update in updates.values():
        current = levels.get(update.feature, 0)
        complaint = _complaint(update, current, api_version) or _unsupported_by(image, update)
        if complaint is not None:
            text = f"nothing is changed: {update.feature} {update.max_version_level}: {complaint}"
            return Decision([], refuse_update(ErrorCode.INVALID_UPDATE_VERSION, text))
        if update.feature == _ELR and update.max_version_level > 0:
            records += _one_minimum(image, min_insync_replicas)
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
    if level < current and upgrade_type == _UPGRADE:
        return f"the level is {current}; this upgrade type does not allow a lower one"
    if level > current and upgrade_type != _UPGRADE:
        return f"the level is {current}; this upgrade type does not allow a higher one"
    if update.feature == METADATA_VERSION and any(level < each <= current for each in _METADATA_CHANGES):
        return f"the metadata of level {current} has records or fields that level {level} does not have"
    return None


def _unsupported_by(image: MetadataImage, update: FeatureUpdateKey) -> str | None:
    """The registered node that does not support a level. A node has level 0 of each feature that it does not name."""
    for kind, nodes in (("broker", image.brokers), ("controller", image.controllers)):
        for node_id, node in nodes.items():
            known = next((each for each in node.features if each.name == update.feature), _DISABLED)
            if not known.min_version <= update.max_version_level <= known.max_version:
                return f"{kind} {node_id} supports levels {known.min_version} to {known.max_version}"
    return None


def _one_minimum(image: MetadataImage, min_insync_replicas: str) -> list[Message]:
    """Store min.insync.replicas for all brokers. Eligible replicas depend on it, so brokers must not differ."""
    removed = [name for kind, name in image.configs if kind == ResourceType.BROKER and name]
    records: list[Message] = [
        _minimum(name, None) for name in removed if _MIN_ISR in image.config(ResourceType.BROKER, name)
    ]
    if _MIN_ISR in image.config(ResourceType.BROKER, ""):
        return records
    return [_minimum("", min_insync_replicas), *records]


def _minimum(broker: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=ResourceType.BROKER, resource_name=broker, name=_MIN_ISR, value=value)


def refuse_update(code: ErrorCode, message: str | None = None) -> UpdateFeaturesResponse:
    """An error for the whole request."""
    return UpdateFeaturesResponse(error_code=code, error_message=message)
