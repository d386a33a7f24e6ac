"""The answers of Apache Kafka 4.3.1 on one node, observed, as tables."""

from __future__ import annotations

import pytest

from ottla.controller.settings.features import INITIAL_LEVELS, decide_update, initial_records
from ottla.metadata.features import unsupported
from ottla.metadata.records import FeatureLevelRecord
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.support.metadata import replayed

IMAGE = replayed(initial_records())
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def test_levels_of_a_new_cluster() -> None:
    assert dict(IMAGE.features) == INITIAL_LEVELS
    assert INITIAL_LEVELS["metadata.version"] == 30
    assert unsupported(IMAGE) == []


@pytest.mark.parametrize(
    ("feature", "level", "kind", "code", "changes"),
    [
        ("group.version", 1, UPGRADE, 0, False),
        ("group.version", 0, UPGRADE, 95, False),
        ("group.version", 0, SAFE, 0, True),
        ("group.version", 0, UNSAFE, 0, True),
        ("group.version", 2, UPGRADE, 95, False),
        ("group.version", -1, UPGRADE, 95, False),
        ("group.version", 1, 0, 95, False),
        ("group.version", 1, 9, 95, False),
        ("transaction.version", 1, SAFE, 0, True),
        ("nope", 1, UPGRADE, 95, False),
        ("", 1, UPGRADE, 95, False),
        ("metadata.version", 30, UPGRADE, 0, False),
        ("metadata.version", 29, UPGRADE, 95, False),
        ("metadata.version", 29, SAFE, 95, False),
        ("metadata.version", 29, UNSAFE, 95, False),
        ("metadata.version", 31, UPGRADE, 95, False),
        ("metadata.version", 6, UNSAFE, 95, False),
        ("kraft.version", 1, UPGRADE, 0, False),
        ("kraft.version", 0, SAFE, 95, False),
    ],
)
def test_update(feature: str, level: int, kind: int, code: int, changes: bool) -> None:
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    records, response = decide_update(IMAGE, UpdateFeaturesRequest(feature_updates=[update]), 2, 1)
    assert response.error_code == code
    assert (response.error_message is None) == (code == 0)
    expected = [FeatureLevelRecord(name=feature, feature_level=level)] if changes else []
    assert records == expected


def test_one_bad_update_spoils_the_request() -> None:
    updates = [
        FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=SAFE),
        FeatureUpdateKey(feature="group.version", max_version_level=5),
    ]
    records, response = decide_update(IMAGE, UpdateFeaturesRequest(feature_updates=updates), 1, 1)
    assert (records, response.error_code, response.results) == ([], 95, [])


def test_old_versions_have_another_field_for_downgrades() -> None:
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    records, response = decide_update(IMAGE, UpdateFeaturesRequest(feature_updates=[update]), 0, 1)
    assert response.error_code == 0
    assert len(records) == 1
    assert [(r.feature, r.error_code, r.error_message) for r in response.results] == [
        ("group.version", 0, "NONE")
    ]


def test_validate_only_and_nothing_to_do() -> None:
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
    assert decide_update(IMAGE, request, 2, 1).records == []
    assert decide_update(IMAGE, UpdateFeaturesRequest(), 2, 1).response.error_code == 0
