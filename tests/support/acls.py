"""ACL entries for tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from ottla.metadata.records import AccessControlEntryRecord
from ottla.security.acls.index import EMPTY_INDEX, AclIndex
from ottla.security.resources import Operation, PatternType, Permission, ResourceType

ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def entry(
    resource_type: ResourceType,
    name: str,
    pattern_type: PatternType = LITERAL,
    principal: str = "User:*",
    host: str = "*",
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
) -> AccessControlEntryRecord:
    """An entry; its id is derived from its content."""
    text = repr(
        (int(resource_type), name, int(pattern_type), principal, host, int(operation), int(permission))
    )
    return AccessControlEntryRecord(
        id=uuid.uuid5(uuid.NAMESPACE_OID, text),
        resource_type=resource_type,
        resource_name=name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def index_of(entries: Iterable[AccessControlEntryRecord]) -> AclIndex:
    by_id = {each.id: each for each in entries}
    return EMPTY_INDEX.updated(by_id, by_id)
