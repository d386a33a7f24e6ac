from __future__ import annotations

import pytest

from ottla.security.acls.filters import AclFilter
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from tests.support.acls import DENY, LITERAL, PREFIXED, entry

ENTRIES = {
    "literal": entry(ResourceType.TOPIC, "foo", LITERAL, "User:alice", "*", Operation.READ),
    "wildcard": entry(ResourceType.TOPIC, "*", LITERAL, "User:bob", "10.0.0.1", Operation.WRITE, DENY),
    "prefix": entry(ResourceType.TOPIC, "fo", PREFIXED, "User:*", "*", Operation.ALL),
    "group": entry(ResourceType.GROUP, "foo", LITERAL, "User:alice", "*", Operation.READ),
}


def selected(
    resource_type: int = ResourceType.ANY,
    name: str | None = None,
    pattern_type: int = PatternType.ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = Operation.ANY,
    permission: int = Permission.ANY,
) -> set[str]:
    message = DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern_type,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )
    wanted = AclFilter.of(message)
    return {key for key, each in ENTRIES.items() if wanted.matches(each)}


def test_no_restriction_selects_everything() -> None:
    assert selected() == set(ENTRIES)


def test_each_field_restricts() -> None:
    assert selected(ResourceType.GROUP) == {"group"}
    assert selected(principal="User:*") == {"prefix"}
    assert selected(principal="User:alice") == {"literal", "group"}
    assert selected(host="10.0.0.1") == {"wildcard"}
    assert selected(host="*") == {"literal", "prefix", "group"}
    assert selected(operation=Operation.ALL) == {"prefix"}
    assert selected(permission=Permission.DENY) == {"wildcard"}


@pytest.mark.parametrize(
    ("pattern_type", "name", "keys"),
    [
        (PatternType.ANY, "foo", {"literal"}),
        (PatternType.ANY, "fo", {"prefix"}),
        (PatternType.ANY, "*", {"wildcard"}),
        (PatternType.LITERAL, None, {"literal", "wildcard"}),
        (PatternType.LITERAL, "foo", {"literal"}),
        (PatternType.LITERAL, "*", {"wildcard"}),
        (PatternType.PREFIXED, None, {"prefix"}),
        (PatternType.PREFIXED, "foo", set()),
        (PatternType.MATCH, None, {"literal", "wildcard", "prefix"}),
        (PatternType.MATCH, "foo", {"literal", "wildcard", "prefix"}),
        (PatternType.MATCH, "foobar", {"wildcard", "prefix"}),
        (PatternType.MATCH, "f", {"wildcard"}),
        (PatternType.UNKNOWN, None, set()),
        (99, None, set()),
    ],
)
def test_names_and_pattern_types(pattern_type: int, name: str | None, keys: set[str]) -> None:
    assert selected(ResourceType.TOPIC, name, pattern_type) == keys


def test_numbers_that_do_not_exist_select_nothing() -> None:
    assert selected(99) == selected(operation=99) == selected(permission=-1) == set()


def test_an_empty_name_is_a_name() -> None:
    assert selected(name="") == set()
