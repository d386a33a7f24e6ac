from __future__ import annotations

from ottla.metadata.features import unsupported
from ottla.metadata.records import FeatureLevelRecord
from tests.support.metadata import features, replayed


def test_supported_levels() -> None:
    assert unsupported(replayed(features())) == []


def test_levels_beyond_this_release_are_named() -> None:
    newer = [
        FeatureLevelRecord(name="metadata.version", feature_level=31),
        FeatureLevelRecord(name="future.version", feature_level=1),
    ]
    assert unsupported(replayed(newer, replayed(features()))) == ["metadata.version 31", "future.version 1"]
