"""Filters of ACL entries, of DescribeAcls and DeleteAcls.

A field that is null or ANY does not restrict. With the pattern type MATCH the name is that of a resource, and the
filter selects the entries that apply to it: the literal name, `*`, and prefixes. With any other pattern type the name
is compared with the name of the entry.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from ottla.metadata.records import AccessControlEntryRecord
from ottla.security.resources import WILDCARD, Operation, PatternType, Permission, ResourceType


class FilterMessage(Protocol):
    """The fields of a filter in a request."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """Selects entries. Numbers that do not exist are UNKNOWN, which selects nothing."""

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @classmethod
    def of(cls, message: FilterMessage) -> AclFilter:
        return cls(
            known(ResourceType, message.resource_type_filter),
            message.resource_name_filter,
            known(PatternType, message.pattern_type_filter),
            message.principal_filter,
            message.host_filter,
            known(Operation, message.operation),
            known(Permission, message.permission_type),
        )

    def matches(self, entry: AccessControlEntryRecord) -> bool:
        """Whether the filter selects an entry."""
        return (
            self.resource_type in (ResourceType.ANY, entry.resource_type)
            and self.operation in (Operation.ANY, entry.operation)
            and self.permission in (Permission.ANY, entry.permission_type)
            and self.principal in (None, entry.principal)
            and self.host in (None, entry.host)
            and self._matches_pattern(entry.pattern_type, entry.resource_name)
        )

    def _matches_pattern(self, pattern_type: int, name: str) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, pattern_type):
            return False
        if self.name is None:
            return True
        if self.pattern_type != PatternType.MATCH:
            return self.name == name
        if pattern_type == PatternType.PREFIXED:
            return self.name.startswith(name)
        return name in (self.name, WILDCARD)


def known(kind: type[IntEnum], number: int) -> int:
    """The number, or UNKNOWN if there is no such member."""
    return number if number in kind._value2member_map_ else 0
