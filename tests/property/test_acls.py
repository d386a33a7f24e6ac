"""The index of ACL entries against a naive model, with random entries and random updates."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.records import AccessControlEntryRecord
from ottla.security.acls.index import EMPTY_INDEX
from ottla.security.resources import Operation, PatternType, Permission, ResourceType

NAMES = st.sampled_from(["*", "a", "ab", "abc", "abd", "b", "*a", "ä", "hardcode"])
PRINCIPALS = ["User:a", "User:b", "User:*", "Group:a"]
HOSTS = ["*", "10.0.0.1", "10.0.0.2"]
OPERATIONS = [each for each in Operation if each > Operation.ALL]
TYPES = [ResourceType.TOPIC, ResourceType.GROUP]

entries = st.builds(
    AccessControlEntryRecord,
    id=st.integers(1, 40).map(lambda number: uuid.UUID(int=number)),
    resource_type=st.sampled_from(TYPES),
    resource_name=NAMES,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from(HOSTS),
    operation=st.sampled_from([Operation.ALL, *OPERATIONS]),
    permission_type=st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def selects(entry: AccessControlEntryRecord, kind: ResourceType, name: str) -> bool:
    if entry.resource_type != kind:
        return False
    if entry.pattern_type == PatternType.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in ("*", name)


def concerns(entry: AccessControlEntryRecord, principal: str, host: str) -> bool:
    return entry.principal in (principal, "User:*") and entry.host in (host, "*")


def result(
    found: list[AccessControlEntryRecord],
    principal: str,
    host: str,
    operation: Operation,
    kind: ResourceType,
    name: str,
) -> bool | None:
    """Whether the operation is allowed; None if the resource has no entries."""
    matching = [entry for entry in found if selects(entry, kind, name)]
    if not matching:
        return None
    mine = [entry for entry in matching if concerns(entry, principal, host)]
    if any(e.permission_type == Permission.DENY and e.operation in (operation, Operation.ALL) for e in mine):
        return False
    wanted = {operation, Operation.ALL, *IMPLIED.get(operation, set())}
    return any(e.permission_type == Permission.ALLOW and e.operation in wanted for e in mine)


def model_any(
    found: list[AccessControlEntryRecord], principal: str, host: str, operation: Operation, kind: ResourceType
) -> bool:
    """Whether some name, not necessarily one that exists, is allowed by an entry and denied by no single other one."""
    mine = [
        e
        for e in found
        if e.resource_type == kind
        and concerns(e, principal, host)
        and e.operation in (operation, Operation.ALL)
    ]
    denied = [e for e in mine if e.permission_type == Permission.DENY]
    allowed = [e for e in mine if e.permission_type == Permission.ALLOW]
    if any(e.resource_name == "*" and e.pattern_type == PatternType.LITERAL for e in denied):
        return False

    def covered(allow: AccessControlEntryRecord) -> bool:
        if allow.resource_name == "*" and allow.pattern_type == PatternType.LITERAL:
            return False
        return any(
            (deny.pattern_type == PatternType.PREFIXED and allow.resource_name.startswith(deny.resource_name))
            or (
                deny.pattern_type == allow.pattern_type == PatternType.LITERAL
                and deny.resource_name == allow.resource_name
            )
            for deny in denied
        )

    return any(not covered(allow) for allow in allowed)


@given(
    changes=st.lists(
        st.tuples(st.lists(entries, max_size=8), st.sets(st.integers(1, 40), max_size=8)), max_size=5
    ),
    principal=st.sampled_from(["User:a", "User:c", "Group:a"]),
    host=st.sampled_from(["10.0.0.1", "10.0.0.3"]),
    kind=st.sampled_from(TYPES),
    name=NAMES,
)
def test_the_index_decides_as_the_model_after_each_update(
    changes: list[tuple[list[AccessControlEntryRecord], set[int]]],
    principal: str,
    host: str,
    kind: ResourceType,
    name: str,
) -> None:
    index, known = EMPTY_INDEX, dict[uuid.UUID, AccessControlEntryRecord]()
    for added, removed in changes:
        ids = {uuid.UUID(int=number) for number in removed}
        known = {key: value for key, value in known.items() if key not in ids}
        known.update({entry.id: entry for entry in added})
        index = index.updated(known, ids | {entry.id for entry in added})
        found = list(known.values())
        allowed, denied, has_entries = index.decide(principal, host, kind, name)
        for operation in OPERATIONS:
            expected = result(found, principal, host, operation, kind, name)
            assert has_entries is (expected is not None)
            assert bool((allowed & ~denied) >> operation & 1) is bool(expected)
            assert index.allows_any(principal, host, operation, kind) is model_any(
                found, principal, host, operation, kind
            )
