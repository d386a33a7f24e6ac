from __future__ import annotations

import pytest

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import AccessControlEntryRecord, NoOpRecord, RemoveAccessControlEntryRecord
from ottla.security.acls.authorizer import AclAuthorizer, parse_super_users
from ottla.security.acls.operations import ALL_OPERATIONS
from ottla.security.resources import Operation, ResourceType
from tests.support.acls import DENY, entry

TOPIC = ResourceType.TOPIC
READ, WRITE = Operation.READ, Operation.WRITE


def followed(
    authorizer: AclAuthorizer, *records: object, image: MetadataImage = EMPTY_IMAGE
) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    after = delta.apply(image.offset + 1, 1)
    authorizer.apply(delta, after)
    authorizer.loaded = True
    return after


def may(
    authorizer: AclAuthorizer, user: str, operation: Operation, name: str, listener: str = "CLIENTS"
) -> bool:
    return bool(authorizer.operations(f"User:{user}", "h", listener, TOPIC, name) >> operation & 1)


def test_super_users_may_do_everything() -> None:
    authorizer = AclAuthorizer(["User:admin"])
    followed(authorizer, entry(TOPIC, "*", principal="User:*", operation=Operation.ALL, permission=DENY))
    assert authorizer.operations("User:admin", "h", "CLIENTS", TOPIC, "foo") == ALL_OPERATIONS
    assert authorizer.allows_any("User:admin", "h", "CLIENTS", WRITE, TOPIC)
    assert not may(authorizer, "Admin", READ, "foo"), "names are compared exactly"
    assert not may(authorizer, "*", READ, "foo")


def test_a_denied_operation_is_denied_although_another_entry_allows_it() -> None:
    authorizer = AclAuthorizer()
    followed(
        authorizer,
        entry(TOPIC, "foo", principal="User:bob", operation=Operation.ALL),
        entry(TOPIC, "*", principal="User:*", operation=WRITE, permission=DENY),
    )
    assert may(authorizer, "bob", READ, "foo")
    assert not may(authorizer, "bob", WRITE, "foo")


def test_without_entries_nothing_is_allowed() -> None:
    authorizer = AclAuthorizer()
    followed(authorizer, NoOpRecord())
    assert not may(authorizer, "bob", READ, "foo")
    assert not authorizer.allows_any("User:bob", "h", "CLIENTS", WRITE, TOPIC)


def test_everything_is_allowed_on_resources_without_entries_if_the_setting_permits_it() -> None:
    authorizer = AclAuthorizer(allow_without_entries=True)
    followed(authorizer, entry(TOPIC, "topic1", principal="User:Alice", operation=READ))
    assert not may(authorizer, "Bob", READ, "topic1"), "an entry names the resource, for another user"
    assert may(authorizer, "Bob", READ, "topic2")
    assert authorizer.allows_any("User:Bob", "h", "CLIENTS", WRITE, TOPIC)


def test_until_the_entries_are_loaded_only_super_users_are_served() -> None:
    authorizer = AclAuthorizer(
        ["User:admin"], allow_without_entries=True, early_start_listeners=["CONTROLLER"]
    )
    assert may(authorizer, "admin", READ, "foo", "CONTROLLER")
    assert not may(authorizer, "admin", READ, "foo", "CLIENTS"), "that listener does not start early"
    assert not may(authorizer, "bob", READ, "foo", "CONTROLLER")
    assert not authorizer.allows_any("User:bob", "h", "CONTROLLER", WRITE, TOPIC)
    followed(authorizer, entry(TOPIC, "bar", principal="User:bob", operation=WRITE))
    authorizer.loaded = False
    assert not authorizer.allows_any("User:bob", "h", "CONTROLLER", WRITE, TOPIC)
    followed(authorizer, NoOpRecord())
    assert may(authorizer, "admin", READ, "foo", "CLIENTS")
    assert may(authorizer, "bob", READ, "foo", "CONTROLLER")


def test_entries_follow_the_metadata() -> None:
    authorizer = AclAuthorizer()
    read = entry(TOPIC, "foo", principal="User:bob", operation=READ)
    image = followed(authorizer, read)
    assert may(authorizer, "bob", READ, "foo")
    image = followed(authorizer, RemoveAccessControlEntryRecord(id=read.id), image=image)
    assert not may(authorizer, "bob", READ, "foo")


def test_a_snapshot_replaces_the_entries() -> None:
    authorizer = AclAuthorizer()
    old = followed(authorizer, entry(TOPIC, "foo", operation=READ), entry(TOPIC, "kept", operation=READ))
    new = followed(AclAuthorizer(), entry(TOPIC, "bar", operation=READ), entry(TOPIC, "kept", operation=READ))
    assert authorizer.apply(MetadataDelta.between(old, new), new)
    assert [may(authorizer, "bob", READ, name) for name in ("foo", "bar", "kept")] == [False, True, True]


def test_other_changes_of_the_metadata_are_no_changes_of_entries() -> None:
    authorizer = AclAuthorizer()
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(NoOpRecord())
    assert not authorizer.apply(delta, delta.apply(0, 1))


def test_an_entry_that_is_added_and_removed_in_one_change() -> None:
    authorizer = AclAuthorizer()
    read: AccessControlEntryRecord = entry(TOPIC, "foo", operation=READ)
    followed(authorizer, read, RemoveAccessControlEntryRecord(id=read.id))
    assert not may(authorizer, "bob", READ, "foo")


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("", set()),
        (" ", set()),
        ("User:bob;User:alice ", {"User:bob", "User:alice"}),
        (";  User:bob  ;  User:alice ", {"User:bob", "User:alice"}),
        ("User:CN=a,OU=b", {"User:CN=a,OU=b"}),
        ("User:a:b", {"User:a:b"}),
    ],
)
def test_super_users_are_separated_by_semicolons(text: str, users: set[str]) -> None:
    assert parse_super_users(text) == users


def test_a_super_user_without_a_type_is_refused() -> None:
    with pytest.raises(ValueError, match="'bob'"):
        parse_super_users("bob;User:alice")
