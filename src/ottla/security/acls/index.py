"""The ACL entries of a cluster, indexed by resource and by principal; immutable.

An entry applies to a resource if its type is the same and its pattern selects the name: the literal name, the literal
`*`, or a prefix. It applies to a client if it names its principal or `User:*`, and its host or `*`. Of the entries that
apply, one that denies an operation wins over all that allow it. An entry that allows an operation also allows the
describing operation that it implies (`operations.allowed_by`); one that denies implies nothing.

All operations of one resource are decided at once, as bit fields. A lookup needs three dictionary lookups for each
pattern that selects the name, and one for each length that a prefix has. `updated` shares what does not change with the
index before.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar

from ottla.metadata.records import AccessControlEntryRecord
from ottla.security.acls.operations import NO_OPERATIONS, allowed_by, denied_by
from ottla.security.resources import WILDCARD, Operation, PatternType, Permission

ANY_PRINCIPAL: Final = "User:*"
"""The only principal of an entry that stands for others."""

Entries = Mapping[uuid.UUID, AccessControlEntryRecord]
Pattern = tuple[int, str]
"""The pattern type and the name of an entry."""

K = TypeVar("K")
_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


Decision = tuple[int, int, bool]
"""What the entries for one resource permit to one client: the operations that are allowed and those that are denied,
which win, and whether there is an entry for the resource at all, for any principal and host."""
_NO_ENTRIES: Final[Decision] = (NO_OPERATIONS, NO_OPERATIONS, False)


class _Rules:
    """The entries of one principal for one pattern; immutable."""

    __slots__ = ("allowed", "by_host", "denied", "entries")

    def __init__(self, entries: Entries) -> None:
        self.entries = entries
        self.allowed = self.denied = NO_OPERATIONS
        self.by_host: dict[str, tuple[int, int]] = {}
        for entry in entries.values():
            allowed, denied = _effect(entry)
            if entry.host == WILDCARD:
                self.allowed |= allowed
                self.denied |= denied
            else:
                before = self.by_host.get(entry.host, (NO_OPERATIONS, NO_OPERATIONS))
                self.by_host[entry.host] = before[0] | allowed, before[1] | denied

    def permissions(self, host: str, operation: int) -> set[int]:
        """The permissions of the entries that name the operation, or all, for this host; without implied ones."""
        return {
            Permission.ALLOW if entry.permission_type == Permission.ALLOW else Permission.DENY
            for entry in self.entries.values()
            if entry.host in (WILDCARD, host) and entry.operation in (Operation.ALL, operation)
        }


def _effect(entry: AccessControlEntryRecord) -> tuple[int, int]:
    """The operations that an entry allows and denies."""
    if entry.permission_type == Permission.ALLOW:
        return allowed_by(entry.operation), NO_OPERATIONS
    return NO_OPERATIONS, denied_by(entry.operation)


class _Nested(Generic[K]):
    """A table of tables of rules that is being changed; each table is copied at its first change."""

    def __init__(self, base: Mapping[str, Mapping[K, _Rules]]) -> None:
        self._tables = dict(base)
        self._copies: dict[str, dict[K, _Rules]] = {}

    def edit(self, name: str) -> dict[K, _Rules]:
        copy = self._copies.get(name)
        if copy is None:
            copy = self._copies[name] = dict(self._tables.get(name, _NOTHING))
        return copy

    def finish(self) -> Mapping[str, Mapping[K, _Rules]]:
        for name, copy in self._copies.items():
            if copy:
                self._tables[name] = copy
            else:
                self._tables.pop(name, None)
        return self._tables


@dataclass(frozen=True, slots=True)
class _TypeIndex:
    """The entries for one type of resource."""

    literal: Mapping[str, Mapping[str, _Rules]]
    """Rules by name, then by principal."""
    everything: Mapping[str, _Rules] | None
    """The rules of the literal `*`."""
    prefixed: Mapping[str, Mapping[str, _Rules]]
    prefix_lengths: tuple[int, ...]
    by_principal: Mapping[str, Mapping[Pattern, _Rules]]
    """The same rules by principal, then by pattern."""

    def decide(self, principal: str, host: str, name: str) -> Decision:
        found = []
        by_principal = self.literal.get(name)
        if by_principal is not None:
            found.append(by_principal)
        if self.everything is not None:
            found.append(self.everything)
        length = len(name)
        for each in self.prefix_lengths:
            if each > length:
                break
            by_principal = self.prefixed.get(name[:each])
            if by_principal is not None:
                found.append(by_principal)
        if not found:
            return _NO_ENTRIES
        allowed = denied = NO_OPERATIONS
        for by_principal in found:
            for who in (principal, ANY_PRINCIPAL):
                rules = by_principal.get(who)
                if rules is not None:
                    allowed |= rules.allowed
                    denied |= rules.denied
                    if rules.by_host and host in rules.by_host:
                        at_host = rules.by_host[host]
                        allowed |= at_host[0]
                        denied |= at_host[1]
        return allowed, denied, True

    def updated(self, removed: Iterable[_Identified], added: Iterable[_Identified]) -> _TypeIndex:
        changed: dict[tuple[Pattern, str], dict[uuid.UUID, AccessControlEntryRecord]] = {}

        def edit(entry: AccessControlEntryRecord) -> dict[uuid.UUID, AccessControlEntryRecord]:
            pattern = entry.pattern_type, entry.resource_name
            entries = changed.get((pattern, entry.principal))
            if entries is None:
                before = self.by_principal.get(entry.principal, _NOTHING).get(pattern)
                entries = changed[pattern, entry.principal] = {} if before is None else dict(before.entries)
            return entries

        for entry_id, entry in removed:
            edit(entry).pop(entry_id, None)
        for entry_id, entry in added:
            edit(entry)[entry_id] = entry
        literal, prefixed = _Nested(self.literal), _Nested(self.prefixed)
        by_principal = _Nested(self.by_principal)
        for (pattern, principal), entries in changed.items():
            patterns = by_principal.edit(principal)
            table = literal if pattern[0] == PatternType.LITERAL else prefixed
            principals = table.edit(pattern[1])
            if entries:
                patterns[pattern] = principals[principal] = _Rules(entries)
            else:
                patterns.pop(pattern, None)
                principals.pop(principal, None)
        names, prefixes = literal.finish(), prefixed.finish()
        lengths = tuple(sorted({len(prefix) for prefix in prefixes}))
        return _TypeIndex(names, names.get(WILDCARD), prefixes, lengths, by_principal.finish())


_Identified = tuple[uuid.UUID, AccessControlEntryRecord]


@dataclass(frozen=True, slots=True)
class AclIndex:
    """All ACL entries at one moment."""

    entries: Entries
    types: Mapping[int, _TypeIndex]

    def updated(self, entries: Entries, changed: Iterable[uuid.UUID]) -> AclIndex:
        """The index of `entries`, which differ from those of this index in the ids `changed` at most."""
        removed: dict[int, list[_Identified]] = {}
        added: dict[int, list[_Identified]] = {}
        for entry_id in changed:
            before, after = self.entries.get(entry_id), entries.get(entry_id)
            if before is not None:
                removed.setdefault(before.resource_type, []).append((entry_id, before))
            if after is not None:
                added.setdefault(after.resource_type, []).append((entry_id, after))
        types = dict(self.types)
        for each in removed.keys() | added.keys():
            base = types.get(each, _EMPTY_TYPE)
            types[each] = base.updated(removed.get(each, ()), added.get(each, ()))
        return AclIndex(entries, types)

    def contains(self, entry: AccessControlEntryRecord) -> bool:
        """Whether there is an entry with the same content, with any id."""
        index = self.types.get(entry.resource_type, _EMPTY_TYPE)
        pattern = entry.pattern_type, entry.resource_name
        rules = index.by_principal.get(entry.principal, _NOTHING).get(pattern)
        return rules is not None and any(
            (each.host, each.operation, each.permission_type)
            == (entry.host, entry.operation, entry.permission_type)
            for each in rules.entries.values()
        )

    def decide(self, principal: str, host: str, resource_type: int, name: str) -> Decision:
        """What the entries permit to a client on one resource."""
        index = self.types.get(resource_type)
        return _NO_ENTRIES if index is None else index.decide(principal, host, name)

    def allows_any(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the entries allow an operation on a resource of this type, whether or not the resource exists.

        As in Kafka, an operation that is only implied by another one does not count, and a pattern counts as
        denied only if one entry denies all of it.
        """
        index = self.types.get(resource_type)
        if index is None:
            return False
        allowed: set[Pattern] = set()
        denied: set[Pattern] = set()
        for who in {principal, ANY_PRINCIPAL}:
            for pattern, rules in index.by_principal.get(who, _NOTHING).items():
                permissions = rules.permissions(host, operation)
                if Permission.ALLOW in permissions:
                    allowed.add(pattern)
                if Permission.DENY in permissions:
                    denied.add(pattern)
        everything = (int(PatternType.LITERAL), WILDCARD)
        if everything in denied:
            return False
        return everything in allowed or any(not _is_denied(each, denied) for each in allowed)


def _is_denied(pattern: Pattern, denied: set[Pattern]) -> bool:
    """Whether one denied pattern selects every name that `pattern` selects."""
    pattern_type, name = pattern
    if pattern_type == PatternType.LITERAL and pattern in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


_EMPTY_TYPE: Final = _TypeIndex(_NOTHING, None, _NOTHING, (), _NOTHING)
EMPTY_INDEX: Final = AclIndex(_NOTHING, _NOTHING)
