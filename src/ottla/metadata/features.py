"""The features that this release supports, with their levels; the levels are Kafka 4.3's."""

from __future__ import annotations

from typing import Final

from ottla.metadata.image import METADATA_VERSION, FeatureRange, MetadataImage

KRAFT_VERSION: Final = "kraft.version"
"""The feature whose level the quorum stores in its control records, outside of the metadata."""

SUPPORTED_FEATURES: Final = (
    FeatureRange("group.version", 0, 1),
    FeatureRange(KRAFT_VERSION, 0, 1),
    FeatureRange(METADATA_VERSION, 7, 30),
    FeatureRange("share.version", 0, 1),
    FeatureRange("streams.version", 0, 1),
    FeatureRange("transaction.version", 0, 2),
    FeatureRange("eligible.leader.replicas.version", 0, 1),
)

_RANGES: Final = {feature.name: feature for feature in SUPPORTED_FEATURES}


def unsupported(image: MetadataImage) -> list[str]:
    """Finalized features that this release does not support, each with its level."""
    return [
        f"{name} {level}"
        for name, level in image.features.items()
        if name not in _RANGES or not _RANGES[name].min_version <= level <= _RANGES[name].max_version
    ]
