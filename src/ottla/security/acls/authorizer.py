"""What a client may do: super users, ACL entries, and the rule for resources without entries.

The rules are those of Kafka's StandardAuthorizer. Super users may do everything, whatever the entries deny. Until the
entries are loaded, super users are the only clients that may do anything, and only on the listeners that start early.
With `allow.everyone.if.no.acl.found` everything is allowed on a resource for which there is no entry at all.

Concurrency: the event loop only. `index` is replaced when entries change.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.security.acls.index import EMPTY_INDEX, AclIndex
from ottla.security.acls.operations import ALL_OPERATIONS, NO_OPERATIONS
from ottla.security.resources import Operation, ResourceType

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ANY_NAME: Final = "hardcode"
"""The name with which Kafka checks whether a client may use a resource without entries of its own."""


def parse_super_users(text: str) -> frozenset[str]:
    """Read `super.users`: principals, separated by semicolons; ValueError if one is not a principal."""
    users = [each.strip() for each in text.split(";")]
    for each in users:
        if each and ":" not in each:
            raise ValueError(f"principal {each!r}; expected Type:name, for example User:admin")
    return frozenset(each for each in users if each)


class AclAuthorizer:
    """The authorizer of one node."""

    __slots__ = ("_default", "_early", "index", "loaded", "super_users")

    def __init__(
        self,
        super_users: Iterable[str] = (),
        *,
        allow_without_entries: bool = False,
        early_start_listeners: Iterable[str] = (),
    ) -> None:
        self.super_users: Final = frozenset(super_users)
        self._default = ALL_OPERATIONS if allow_without_entries else NO_OPERATIONS
        self._early = frozenset(early_start_listeners)
        self.index: AclIndex = EMPTY_INDEX
        self.loaded = False
        """Whether the index has had all entries that were committed when this node started."""

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> bool:
        """Follow a change of the metadata; returns whether entries have changed."""
        if not delta.changed_acls:
            return False
        self.index = self.index.updated(image.acls, delta.changed_acls)
        return True

    def operations(
        self, principal: str, host: str, listener: str, resource_type: ResourceType, name: str
    ) -> int:
        """The operations, as a bit field, that a client may perform on one resource."""
        if not self.loaded:
            return (
                ALL_OPERATIONS if principal in self.super_users and listener in self._early else NO_OPERATIONS
            )
        if principal in self.super_users:
            return ALL_OPERATIONS
        allowed, denied, has_entries = self.index.decide(principal, host, resource_type, name)
        return allowed & ~denied if has_entries else self._default

    def allows_any(
        self, principal: str, host: str, listener: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether a client may perform an operation on any resource of this type."""
        if self.operations(principal, host, listener, resource_type, _ANY_NAME) >> operation & 1:
            return True
        return self.loaded and self.index.allows_any(principal, host, operation, resource_type)
