"""Responses as Apache Kafka 4.3.1 gives them; `tests/compat/differential/users.py` compares both."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from ottla.controller.decision import RECORDS_PER_REQUEST_MAX
from ottla.controller.settings.client_quotas import decide_alter, describe, refuse_alter
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import ClientQuotaRecord
from ottla.metadata.records import EntityData as StoredEntity
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from tests.support.metadata import replayed

Entity = dict[str, str | None]


def stored(entity: Entity, key: str, value: float, *, remove: bool = False) -> ClientQuotaRecord:
    parts = [StoredEntity(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    return ClientQuotaRecord(entity=parts, key=key, value=value, remove=remove)


def entry(entity: Entity, **values: float | None) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value or 0, remove=value is None) for key, value in values.items()],
    )


def alter(
    image: MetadataImage, *entries: EntryData, validate_only: bool = False
) -> tuple[list[object], AlterClientQuotasResponse]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    records, response = decide_alter(image, request)
    return list(records), response


ALICE: Entity = {"user": "alice"}
BOTH: Entity = {"client-id": "app", "user": "alice"}
IMAGE = replayed(
    [
        stored(ALICE, "producer_byte_rate", 1000.0),
        stored(ALICE, "consumer_byte_rate", 2000.0),
        stored({"user": None}, "producer_byte_rate", 5.0),
        stored(BOTH, "request_percentage", 12.5),
        stored({"client-id": "app"}, "producer_byte_rate", 7.0),
        stored({"ip": "10.0.0.1"}, "connection_creation_rate", 3.0),
    ]
)


def test_quotas_are_set_changed_and_removed() -> None:
    records, response = alter(
        IMAGE,
        entry(ALICE, producer_byte_rate=1000, consumer_byte_rate=3000, request_percentage=0.5),
        entry({"user": None}, producer_byte_rate=None, consumer_byte_rate=None),
        entry({"user": "alice", "client-id": None}, controller_mutation_rate=2.5),
        entry({"ip": None}, connection_creation_rate=9),
    )
    assert [each.error_code for each in response.entries] == [0, 0, 0, 0]
    assert all(each.error_message is None for each in response.entries)
    assert records == [
        stored(ALICE, "consumer_byte_rate", 3000.0),
        stored(ALICE, "request_percentage", 0.5),
        stored({"user": None}, "producer_byte_rate", 0.0, remove=True),
        stored({"client-id": None, "user": "alice"}, "controller_mutation_rate", 2.5),
        stored({"ip": None}, "connection_creation_rate", 9.0),
    ]
    assert alter(IMAGE, entry(ALICE, request_percentage=1.0), validate_only=True)[0] == []


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ({}, "producer_byte_rate", 1.0),
        ({"group": "g"}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"client-id": ""}, "producer_byte_rate", 1.0),
        ({"ip": "10.0.0.1", "user": "alice"}, "connection_creation_rate", 1.0),
        ({"ip": "not an address"}, "connection_creation_rate", 1.0),
        ({"ip": "10.0.0.1"}, "producer_byte_rate", 1.0),
        (ALICE, "connection_creation_rate", 1.0),
        (ALICE, "unknown", 1.0),
        (ALICE, "producer_byte_rate", 0.0),
        (ALICE, "producer_byte_rate", -1.0),
        (ALICE, "producer_byte_rate", 1.5),
        (ALICE, "producer_byte_rate", 1e19),
        (ALICE, "producer_byte_rate", float("nan")),
        (ALICE, "request_percentage", float("nan")),
        ({"ip": "::1"}, "connection_creation_rate", 2.0**31),
        ({"ip": None}, "connection_creation_rate", 0.5),
    ],
)
def test_what_is_refused(entity: Entity, key: str, value: float) -> None:
    good = entry({"user": "good"}, producer_byte_rate=1)
    records, response = alter(IMAGE, entry(entity, **{key: value}), good)
    assert [each.error_code for each in response.entries] == [ErrorCode.INVALID_REQUEST, 0]
    assert response.entries[0].error_message
    assert records == [stored({"user": "good"}, "producer_byte_rate", 1.0)]


def test_one_bad_quota_refuses_its_entity() -> None:
    records, response = alter(IMAGE, entry(ALICE, consumer_byte_rate=1, producer_byte_rate=-1))
    assert records == []
    assert response.entries[0].error_code == ErrorCode.INVALID_REQUEST


def test_what_occurs_twice_is_refused() -> None:
    twice = EntryData(
        entity=[EntityData(entity_type="user", entity_name="bob")],
        ops=[OpData(key="producer_byte_rate", value=1), OpData(key="producer_byte_rate", value=2)],
    )
    records, response = alter(IMAGE, twice, entry(ALICE, request_percentage=1), entry(ALICE))
    assert records == []
    assert [each.error_code for each in response.entries] == [ErrorCode.INVALID_REQUEST] * 2


def test_refusal() -> None:
    response = refuse_alter(AlterClientQuotasRequest(entries=[entry(BOTH)]), ErrorCode.NOT_CONTROLLER, "no")
    (one,) = response.entries
    assert (one.error_code, one.error_message) == (41, "no")
    assert [(each.entity_type, each.entity_name) for each in one.entity] == [
        ("client-id", "app"),
        ("user", "alice"),
    ]
    assert RECORDS_PER_REQUEST_MAX == 10_000


def component(kind: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


EXACT, DEFAULT, SPECIFIED = 0, 1, 2
USER_ANY = component("user", SPECIFIED)


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, 5),
        ([], True, 0),
        ([USER_ANY], False, 3),
        ([USER_ANY], True, 2),
        ([component("user", EXACT, "alice")], False, 2),
        ([component("user", EXACT, "alice")], True, 1),
        ([component("user", DEFAULT)], True, 1),
        ([USER_ANY, component("client-id", EXACT, "app")], True, 1),
        ([USER_ANY, component("client-id", EXACT, "other")], True, 0),
        ([component("ip", SPECIFIED)], True, 1),
        ([component("ip", DEFAULT)], True, 0),
    ],
)
def test_describe(components: list[ComponentData], strict: bool, expected: int) -> None:
    response = describe(IMAGE, DescribeClientQuotasRequest(components=components, strict=strict))
    assert response.error_code == 0
    assert response.entries is not None
    assert len(response.entries) == expected


def test_described_values() -> None:
    response = describe(
        IMAGE, DescribeClientQuotasRequest(components=[component("user", EXACT, "alice")], strict=True)
    )
    assert response.entries is not None
    (one,) = response.entries
    assert [(each.entity_type, each.entity_name) for each in one.entity] == [("user", "alice")]
    assert {each.key: each.value for each in one.values} == {
        "producer_byte_rate": 1000.0,
        "consumer_byte_rate": 2000.0,
    }


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([component("", SPECIFIED)], ErrorCode.INVALID_REQUEST),
        ([USER_ANY, USER_ANY], ErrorCode.INVALID_REQUEST),
        ([component("group", SPECIFIED)], ErrorCode.UNSUPPORTED_VERSION),
        ([component("user", EXACT)], ErrorCode.INVALID_REQUEST),
        ([component("user", DEFAULT, "alice")], ErrorCode.INVALID_REQUEST),
        ([component("user", SPECIFIED, "alice")], ErrorCode.INVALID_REQUEST),
        ([component("user", 3)], ErrorCode.INVALID_REQUEST),
        ([component("user", -1)], ErrorCode.INVALID_REQUEST),
        ([component("ip", SPECIFIED), USER_ANY], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_is_refused(components: list[ComponentData], code: ErrorCode) -> None:
    response = describe(IMAGE, DescribeClientQuotasRequest(components=components))
    assert (response.error_code, response.entries) == (code, None)
    assert response.error_message
