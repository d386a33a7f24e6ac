"""The answers of Apache Kafka 4.3.1 on one node, observed, as tables."""

from __future__ import annotations

import pytest

from ottla.controller.decision import Decision
from ottla.controller.settings.features import INITIAL_LEVELS, decide_update, initial_records
from ottla.metadata.features import unsupported
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.records import (
    BrokerFeature,
    ConfigRecord,
    ControllerFeature,
    FeatureLevelRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
)
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.wire.schema import Message
from tests.support.metadata import replayed

IMAGE = replayed(initial_records())
UPGRADE, SAFE, UNSAFE = 1, 2, 3


def decide(
    image: MetadataImage, request: UpdateFeaturesRequest, api_version: int = 2
) -> Decision[UpdateFeaturesResponse]:
    return decide_update(image, request, api_version, kraft_version=1, min_insync_replicas="4")


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
    records, response = decide(IMAGE, UpdateFeaturesRequest(feature_updates=[update]))
    assert response.error_code == code
    assert (response.error_message is None) == (code == 0)
    expected = [FeatureLevelRecord(name=feature, feature_level=level)] if changes else []
    assert records == expected


@pytest.mark.parametrize(
    ("level", "kind", "code"),
    [(25, SAFE, 0), (23, UNSAFE, 0), (22, SAFE, 95), (22, UNSAFE, 95), (25, UPGRADE, 95), (30, SAFE, 95)],
)
def test_a_lower_metadata_version_must_not_lose_metadata(level: int, kind: int, code: int) -> None:
    image = replayed([*initial_records(), FeatureLevelRecord(name="metadata.version", feature_level=29)])
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=level, upgrade_type=kind)
    _, response = decide(image, UpdateFeaturesRequest(feature_updates=[update]))
    assert response.error_code == code


@pytest.mark.parametrize(("kind", "code"), [(UPGRADE, 0), (SAFE, 95), (UNSAFE, 95)])
def test_a_downgrade_does_not_raise_a_level(kind: int, code: int) -> None:
    image = replayed([*initial_records(), FeatureLevelRecord(name="group.version", feature_level=0)])
    update = FeatureUpdateKey(feature="group.version", max_version_level=1, upgrade_type=kind)
    _, response = decide(image, UpdateFeaturesRequest(feature_updates=[update]))
    assert response.error_code == code


@pytest.mark.parametrize("node", ["broker", "controller"])
@pytest.mark.parametrize(("level", "code"), [(0, 95), (1, 0)])
def test_every_registered_node_must_support_a_level(node: str, level: int, code: int) -> None:
    if node == "broker":
        feature = BrokerFeature(name="group.version", min_supported_version=1, max_supported_version=1)
        record: Message = RegisterBrokerRecord(broker_id=5, features=[feature])
    else:
        one = ControllerFeature(name="group.version", min_supported_version=1, max_supported_version=1)
        record = RegisterControllerRecord(controller_id=5, features=[one])
    image = replayed([*initial_records(), record])
    update = FeatureUpdateKey(feature="group.version", max_version_level=level, upgrade_type=2 - level)
    _, response = decide(image, UpdateFeaturesRequest(feature_updates=[update]))
    assert response.error_code == code


def test_a_feature_that_a_node_does_not_name_can_only_be_disabled_there() -> None:
    image = replayed([*initial_records(), RegisterBrokerRecord(broker_id=5)])
    for level, code in ((0, 0), (1, 95)):
        update = FeatureUpdateKey(feature="share.version", max_version_level=level, upgrade_type=2 - level)
        _, response = decide(image, UpdateFeaturesRequest(feature_updates=[update]))
        assert response.error_code == code


def config_record(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceType.BROKER, resource_name=name, name="min.insync.replicas", value=value
    )


def test_eligible_leader_replicas_need_one_minimum_for_all_brokers() -> None:
    """Brokers must not differ in the size of the ISR below which replicas become eligible."""
    disabled = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=0)
    image = replayed([*initial_records(), disabled, config_record("1", "2"), config_record("2", "3")])
    update = FeatureUpdateKey(feature="eligible.leader.replicas.version", max_version_level=1)
    request = UpdateFeaturesRequest(feature_updates=[update])
    enabled = FeatureLevelRecord(name="eligible.leader.replicas.version", feature_level=1)
    removed = [config_record("1", None), config_record("2", None)]
    assert decide(image, request).records == [config_record("", "4"), *removed, enabled]
    known = replayed([*initial_records(), disabled, config_record("", "2"), config_record("1", "2")])
    assert decide(known, request).records == [config_record("1", None), enabled]
    assert decide(image, UpdateFeaturesRequest(feature_updates=[update], validate_only=True)).records == []


def test_one_bad_update_spoils_the_request() -> None:
    updates = [
        FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=SAFE),
        FeatureUpdateKey(feature="group.version", max_version_level=5),
    ]
    records, response = decide(IMAGE, UpdateFeaturesRequest(feature_updates=updates), 1)
    assert (records, response.error_code, response.results) == ([], 95, [])


def test_old_versions_have_another_field_for_downgrades() -> None:
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    records, response = decide(IMAGE, UpdateFeaturesRequest(feature_updates=[update]), 0)
    assert response.error_code == 0
    assert len(records) == 1
    assert [(r.feature, r.error_code, r.error_message) for r in response.results] == [
        ("group.version", 0, "NONE")
    ]


def test_validate_only_and_nothing_to_do() -> None:
    update = FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE)
    request = UpdateFeaturesRequest(feature_updates=[update], validate_only=True)
    assert decide(IMAGE, request).records == []
    assert decide(IMAGE, UpdateFeaturesRequest()).response.error_code == 0
