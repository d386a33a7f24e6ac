"""Responses as Apache Kafka 4.3.1 gives them; `tests/compat/differential/acls.py` compares both."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.decision import RECORDS_PER_REQUEST_MAX
from ottla.controller.security.acls import decide_create, decide_delete, refuse_create, refuse_delete
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.support.acls import LITERAL, PREFIXED, entry, index_of
from tests.support.metadata import replayed

FOO = entry(ResourceType.TOPIC, "foo", LITERAL, "User:alice", operation=Operation.READ)
FOO_WRITE = entry(ResourceType.TOPIC, "foo", LITERAL, "User:alice", operation=Operation.WRITE)
PREFIX = entry(ResourceType.TOPIC, "fo", PREFIXED, "User:bob", operation=Operation.READ)
IMAGE = replayed([FOO, FOO_WRITE, PREFIX])
NEW = AclCreation(
    resource_type=ResourceType.TOPIC,
    resource_name="new",
    resource_pattern_type=LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission_type=Permission.ALLOW,
)


def create(
    *creations: AclCreation, image: MetadataImage = IMAGE
) -> tuple[list[AccessControlEntryRecord], list[tuple[int, str | None]]]:
    request = CreateAclsRequest(creations=list(creations))
    index = index_of(image.acls.values())
    records, response = decide_create(image, index, request, random.Random(1))
    made = [each for each in records if isinstance(each, AccessControlEntryRecord)]
    assert len(made) == len(records)
    return made, [(each.error_code, each.error_message) for each in response.results]


def test_entries_are_created_in_order_with_ids_of_their_own() -> None:
    records, results = create(NEW, replace(NEW, operation=Operation.WRITE))
    assert results == [(0, ""), (0, "")]
    assert [each.operation for each in records] == [Operation.READ, Operation.WRITE]
    assert len({each.id for each in records}) == 2
    after = replayed(records, IMAGE)
    assert len(after.acls) == 5


def test_an_entry_that_exists_is_not_created_again() -> None:
    existing = AclCreation(
        resource_type=FOO.resource_type,
        resource_name=FOO.resource_name,
        resource_pattern_type=FOO.pattern_type,
        principal=FOO.principal,
        host=FOO.host,
        operation=FOO.operation,
        permission_type=FOO.permission_type,
    )
    records, results = create(existing, NEW, NEW)
    assert results == [(0, "")] * 3
    assert [each.resource_name for each in records] == ["new"]
    for change in (
        {"host": "10.0.0.1"},
        {"permission_type": Permission.DENY},
        {"resource_pattern_type": PREFIXED},
        {"principal": "User:carol"},
    ):
        assert len(create(replace(existing, **change))[0]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": ResourceType.CLUSTER},
        {"resource_name": ""},
        {"resource_type": 99},
        {"resource_pattern_type": 99},
        {"operation": 99},
        {"permission_type": 99},
        {"principal": "alice"},
        {"principal": ""},
    ],
)
def test_an_entry_that_is_not_valid_does_not_affect_the_others(change: dict[str, object]) -> None:
    records, results = create(replace(NEW, **change), NEW)
    assert [code for code, _ in results] == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert results[0][1]
    assert len(records) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_pattern_type": PatternType.ANY},
        {"resource_pattern_type": PatternType.MATCH},
        {"operation": Operation.ANY},
        {"permission_type": Permission.ANY},
    ],
)
def test_values_of_filters_fail_the_request(change: dict[str, object]) -> None:
    records, results = create(NEW, replace(NEW, **change))
    assert not records
    assert results == [(ErrorCode.UNKNOWN_SERVER_ERROR, None)] * 2


def test_principals_and_the_cluster_that_are_accepted() -> None:
    cluster = replace(NEW, resource_type=ResourceType.CLUSTER, resource_name="kafka-cluster")
    records, _ = create(cluster, replace(NEW, principal="User:"), replace(NEW, principal=":"))
    assert len(records) == 3


def test_a_request_can_create_only_so_many_entries() -> None:
    with pytest.raises(ApiError) as refused:
        create(*(replace(NEW, resource_name=f"t{each}") for each in range(RECORDS_PER_REQUEST_MAX + 1)))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


ANYTHING = DeleteAclsFilter(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)


def test_the_entries_that_filters_select_are_removed_once() -> None:
    filters = [
        replace(ANYTHING, resource_name_filter="foo", pattern_type_filter=PatternType.MATCH),
        replace(ANYTHING, operation=Operation.WRITE),
        replace(ANYTHING, resource_type_filter=ResourceType.GROUP),
    ]
    records, response = decide_delete(IMAGE, DeleteAclsRequest(filters=filters))
    removed = {each.id for each in records if isinstance(each, RemoveAccessControlEntryRecord)}
    assert (len(records), removed) == (3, {FOO.id, FOO_WRITE.id, PREFIX.id})
    assert [len(each.matching_acls) for each in response.filter_results] == [3, 1, 0]
    assert all((each.error_code, each.error_message) == (0, None) for each in response.filter_results)
    (found,) = response.filter_results[1].matching_acls
    assert (found.error_code, found.error_message) == (0, None)
    assert (found.resource_name, found.principal, found.host) == ("foo", "User:alice", "*")
    assert (found.operation, found.permission_type) == (Operation.WRITE, Permission.ALLOW)
    assert not replayed(records, IMAGE).acls


@pytest.mark.parametrize(
    "change",
    [
        {"resource_type_filter": 99},
        {"pattern_type_filter": 99},
        {"operation": 99},
        {"permission_type": 99},
    ],
)
def test_a_filter_with_an_unknown_number_is_refused(change: dict[str, object]) -> None:
    filters = [replace(ANYTHING, **change), replace(ANYTHING, principal_filter="User:bob")]
    records, response = decide_delete(IMAGE, DeleteAclsRequest(filters=filters))
    assert len(records) == 1
    assert [each.error_code for each in response.filter_results] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NONE,
    ]


def test_a_request_can_remove_only_so_many_entries() -> None:
    image = replayed(
        [entry(ResourceType.TOPIC, f"t{each}") for each in range(RECORDS_PER_REQUEST_MAX + 1)], IMAGE
    )
    topics = replace(ANYTHING, resource_type_filter=ResourceType.GROUP)
    records, response = decide_delete(image, DeleteAclsRequest(filters=[ANYTHING, topics]))
    assert not records
    assert [each.error_code for each in response.filter_results] == [ErrorCode.INVALID_REQUEST] * 2


def test_one_error_for_every_part() -> None:
    created = refuse_create(CreateAclsRequest(creations=[NEW, NEW]), ErrorCode.SECURITY_DISABLED, "no")
    assert [(each.error_code, each.error_message) for each in created.results] == [(54, "no")] * 2
    deleted = refuse_delete(DeleteAclsRequest(filters=[ANYTHING]), ErrorCode.SECURITY_DISABLED, None)
    assert [(each.error_code, each.error_message) for each in deleted.filter_results] == [(54, None)]
