from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.metadata.records import AccessControlEntryRecord
from ottla.security.acls.index import EMPTY_INDEX, AclIndex
from ottla.security.resources import Operation, PatternType, ResourceType
from tests.support.acls import ALLOW, DENY, LITERAL, PREFIXED, entry, index_of

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL


def may(
    index: AclIndex, user: str, operation: Operation, kind: ResourceType, name: str, host: str = "10.0.0.1"
) -> bool:
    allowed, denied, _ = index.decide(f"User:{user}", host, kind, name)
    return bool((allowed & ~denied) >> operation & 1)


def test_a_denied_operation_is_denied_although_another_pattern_allows_it() -> None:
    index = index_of(
        [
            entry(TOPIC, "foo", LITERAL, "User:alice", "*", ALL, DENY),
            entry(TOPIC, "foo", PREFIXED, "User:alice", "*", READ, ALLOW),
            entry(TOPIC, "foo", LITERAL, "User:*", "*", ALL, DENY),
            entry(TOPIC, "foo", PREFIXED, "User:*", "*", DESCRIBE, ALLOW),
        ]
    )
    assert not may(index, "alice", READ, TOPIC, "foo")
    assert not may(index, "alice", DESCRIBE, TOPIC, "foo")
    assert may(index, "alice", READ, TOPIC, "foobar")
    assert may(index, "bob", DESCRIBE, TOPIC, "foobar")
    assert not may(index, "bob", READ, TOPIC, "foobar")


def test_a_denied_prefix_wins_over_a_literal_name() -> None:
    index = index_of(
        [
            entry(TOPIC, "a", PREFIXED, "User:bob", "*", READ, DENY),
            entry(TOPIC, "abc", LITERAL, "User:bob", "*", READ, ALLOW),
        ]
    )
    assert not may(index, "bob", READ, TOPIC, "abc")
    assert may(index, "bob", DESCRIBE, TOPIC, "abc"), "to deny READ does not deny DESCRIBE"


def test_every_topic_of_a_type_can_be_denied() -> None:
    index = index_of(
        [
            entry(TOPIC, "*", LITERAL, "User:*", "*", ALL, DENY),
            entry(TOPIC, "abc", LITERAL, "User:bob", "*", READ, ALLOW),
        ]
    )
    assert not may(index, "bob", READ, TOPIC, "abc")
    assert not may(index, "bob", READ, TOPIC, "*")


def test_prefixes_select_names_that_start_with_them() -> None:
    index = index_of(
        [
            entry(TOPIC, "fooa", PREFIXED, "User:alice", operation=ALL),
            entry(TOPIC, "foobar", LITERAL, "User:bob", operation=ALL),
            entry(TOPIC, "f", PREFIXED, "User:bob", operation=ALL),
        ]
    )
    assert may(index, "bob", WRITE, TOPIC, "foobarr")
    assert not may(index, "bob", READ, TOPIC, "goobar")
    assert may(index, "bob", READ, TOPIC, "fooa")
    assert may(index, "alice", DESCRIBE, TOPIC, "fooa")
    assert not may(index, "alice", WRITE, TOPIC, "foo")


def test_a_prefix_that_is_an_asterisk_is_a_prefix() -> None:
    index = index_of([entry(TOPIC, "*", PREFIXED, operation=READ)])
    assert may(index, "bob", READ, TOPIC, "*a")
    assert not may(index, "bob", READ, TOPIC, "a")


def test_types_are_separate() -> None:
    index = index_of([entry(TOPIC, "*", operation=ALL)])
    assert not may(index, "bob", READ, GROUP, "g")


def test_hosts() -> None:
    index = index_of(
        [
            entry(TOPIC, "foo", LITERAL, "User:alice", "192.168.1.1", READ, DENY),
            entry(TOPIC, "foo", LITERAL, "User:alice", "*", READ, ALLOW),
            entry(TOPIC, "bar", LITERAL, "User:bob", "192.168.1.2", READ, ALLOW),
        ]
    )
    assert may(index, "alice", READ, TOPIC, "foo", "127.0.0.1")
    assert not may(index, "alice", READ, TOPIC, "foo", "192.168.1.1")
    assert may(index, "bob", READ, TOPIC, "bar", "192.168.1.2")
    assert not may(index, "bob", READ, TOPIC, "bar", "192.168.1.1")


def test_only_one_principal_stands_for_others() -> None:
    index = index_of([entry(TOPIC, "foo", principal="User:a*"), entry(TOPIC, "foo", principal="*:*")])
    assert not may(index, "alice", READ, TOPIC, "foo")
    index = index_of([entry(TOPIC, "foo", principal="User:*")])
    assert index.decide("Group:admins", "h", TOPIC, "foo")[0] >> READ & 1


def test_entries_of_others_count_as_entries_of_the_resource() -> None:
    index = index_of([entry(TOPIC, "foo", principal="User:alice", host="1.2.3.4")])
    assert index.decide("User:bob", "h", TOPIC, "foo") == (0, 0, True)
    assert index.decide("User:bob", "h", TOPIC, "bar") == (0, 0, False)
    assert EMPTY_INDEX.decide("User:bob", "h", TOPIC, "foo") == (0, 0, False)


def test_an_update_changes_what_was_added_and_removed_and_nothing_else() -> None:
    first = entry(TOPIC, "foo", principal="User:alice", operation=READ)
    second = entry(TOPIC, "foo", principal="User:alice", operation=WRITE)
    prefix = entry(TOPIC, "f", PREFIXED, principal="User:alice", operation=Operation.DELETE)
    before = index_of([first, second, prefix])
    after = before.updated({second.id: second}, [first.id, prefix.id])
    assert not may(after, "alice", READ, TOPIC, "foo")
    assert may(after, "alice", WRITE, TOPIC, "foo")
    assert not may(after, "alice", Operation.DELETE, TOPIC, "foo")
    assert may(before, "alice", READ, TOPIC, "foo"), "the index before has not changed"
    empty = after.updated({}, [second.id])
    assert empty.decide("User:alice", "h", TOPIC, "foo") == (0, 0, False)


def test_equal_entries_with_two_ids_are_independent() -> None:
    one = entry(TOPIC, "foo")
    two = AccessControlEntryRecord(**{name: getattr(one, name) for name in one.__struct_fields__})
    two.id = entry(GROUP, "other").id
    index = index_of([one, two]).updated({two.id: two}, [one.id])
    assert may(index, "bob", READ, TOPIC, "foo")


def write_anywhere(entries: Iterable[AccessControlEntryRecord]) -> bool:
    return index_of(entries).allows_any("User:bob", "10.0.0.1", WRITE, TOPIC)


def allow(
    name: str, pattern: PatternType = LITERAL, operation: Operation = WRITE
) -> AccessControlEntryRecord:
    return entry(TOPIC, name, pattern, operation=operation)


def deny(name: str, pattern: PatternType = LITERAL, operation: Operation = WRITE) -> AccessControlEntryRecord:
    return entry(TOPIC, name, pattern, operation=operation, permission=DENY)


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], False),
        ([entry(GROUP, "g", operation=WRITE)], False),
        ([allow("foo")], True),
        ([allow("foo", operation=ALL)], True),
        ([entry(TOPIC, "foo", principal="User:eve", operation=WRITE)], False),
        ([entry(TOPIC, "foo", host="10.0.0.2", operation=WRITE)], False),
        ([allow("foo", operation=READ)], False),
        ([allow("foo"), deny("foo")], False),
        ([allow("foo"), deny("fo", PREFIXED, ALL)], False),
        ([allow("fo", PREFIXED), deny("fo")], True),
        ([allow("fo", PREFIXED), deny("foo", PREFIXED)], True),
        ([allow("fo", PREFIXED), deny("f", PREFIXED)], False),
        ([allow("fo", PREFIXED), deny("fo", PREFIXED)], False),
        ([allow("foo"), deny("foo", PREFIXED)], False),
        ([allow("foo"), deny("fooo", PREFIXED)], True),
        ([allow("*"), deny("f", PREFIXED)], True),
        ([allow("foo"), deny("*")], False),
        ([allow("*"), deny("*")], False),
    ],
)
def test_an_operation_on_any_resource_of_a_type(
    entries: list[AccessControlEntryRecord], allowed: bool
) -> None:
    assert write_anywhere(entries) is allowed


def test_an_implied_operation_on_any_resource_does_not_count() -> None:
    index = index_of([entry(TOPIC, "foo", operation=READ)])
    assert not index.allows_any("User:bob", "10.0.0.1", DESCRIBE, TOPIC)
