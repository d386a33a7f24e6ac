"""DescribeAcls, CreateAcls, DeleteAcls: played without an authorizer, and on brokers with one."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ottla.security.resources import CLUSTER, Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import CLOSED, Player

ALLOW, DENY = Permission.ALLOW, Permission.DENY
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
UNUSUAL = (0, -1, 99, 127)


def entry(
    name: str,
    principal: str = "User:alice",
    *,
    kind: int = TOPIC,
    pattern: int = PatternType.LITERAL,
    host: str = "*",
    operation: int = Operation.READ,
    permission: int = ALLOW,
) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def create(*entries: AclCreation) -> CreateAclsRequest:
    return CreateAclsRequest(creations=list(entries))


def selecting(
    principal: str | None = None,
    *,
    kind: int = ResourceType.ANY,
    name: str | None = None,
    pattern: int = PatternType.ANY,
    host: str | None = None,
    operation: int = Operation.ANY,
    permission: int = Permission.ANY,
) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )


def delete(*filters: DeleteAclsFilter) -> DeleteAclsRequest:
    return DeleteAclsRequest(filters=list(filters))


def describe(wanted: DeleteAclsFilter) -> DescribeAclsRequest:
    return DescribeAclsRequest(**{name: getattr(wanted, name) for name in wanted.__struct_fields__})


def settle(player: Player, principal: str, count: int) -> None:
    """Wait until the broker has applied changes of the entries; at once without an authorizer."""

    def seen() -> bool:
        response: Any = player.quietly(describe(selecting(principal)))
        if response is CLOSED or response.error_code:
            return True
        return sum(len(each.acls) for each in response.resources) == count

    player.until(seen)


@scenario(CreateAclsRequest)
def acl_creations(player: Player) -> None:
    user, topic = f"User:{player.topic('user')}", player.topic("t")
    good = entry(topic, user)
    player.ask("nothing", create())
    player.ask("one", create(good))
    player.ask("again, and twice", create(good, replace(good, operation=4), replace(good, operation=4)))
    for operation in range(2, 16):
        player.ask(f"operation {operation}", create(replace(good, operation=operation)))
    settle(player, user, 14)
    player.ask("described", describe(selecting(user)))
    for kind in range(2, 8):
        name = CLUSTER if kind == ResourceType.CLUSTER else topic
        player.ask(f"type {kind}", create(replace(good, resource_type=kind, resource_name=name, host="h")))
        player.ask(f"type {kind}, another name", create(replace(good, resource_type=kind, resource_name="*")))
    for field in ("resource_type", "resource_pattern_type", "operation", "permission_type"):
        for number in (1, 2, *UNUSUAL):
            if (field, number) != ("permission_type", 2):
                player.ask(f"{field} {number}", create(good, replace(good, **{field: number, "host": "x"})))
    for principal in ("", "alice", ":", "User:", ":alice", "User:a:b", f"User:{'x' * 1000}"):
        player.ask(f"principal {principal[:10]}", create(replace(good, principal=principal)))
    for host in ("", "*", "not a host", "::1", "10.0.0.1/8"):
        player.ask(f"host {host}", create(replace(good, host=host)))
    for name in ("", "*", "a b", "ü", CLUSTER):
        player.ask(f"name {name}", create(replace(good, resource_name=name, resource_type=GROUP)))
        player.ask(f"prefix {name}", create(replace(good, resource_name=name, resource_pattern_type=4)))
    player.ask("empty cluster", create(replace(good, resource_name="", resource_type=ResourceType.CLUSTER)))
    player.ask("good and bad", create(
        replace(good, resource_name=""), replace(good, resource_name="ok"), replace(good, principal="bad"),
        replace(good, permission_type=DENY), replace(good, resource_type=ResourceType.CLUSTER),
    ))  # fmt: skip
    player.ask("removed", delete(selecting(user)))
    settle(player, user, 0)
    player.quietly(delete(selecting("User:"), selecting(":"), selecting(":alice"), selecting("User:a:b")))
    player.quietly(delete(selecting(f"User:{'x' * 1000}")))
    player.ask("none is left", describe(selecting(user)))


@scenario(DescribeAclsRequest)
def acl_filters(player: Player) -> None:
    alice, bob = (f"User:{player.topic(name)}" for name in ("alice", "bob"))
    prefix = player.topic("")
    name = f"{prefix}orders"
    entries = [
        entry(name, alice),
        entry(name, alice, operation=Operation.WRITE, host="10.0.0.1"),
        entry(name, bob, permission=DENY),
        entry(prefix, alice, pattern=PatternType.PREFIXED, operation=Operation.ALL),
        entry(name, bob, pattern=PatternType.PREFIXED, operation=Operation.DESCRIBE),
        entry("*", alice, operation=Operation.CREATE),
        entry(name, alice, kind=GROUP),
        entry("*", bob, kind=GROUP, permission=DENY, host="h"),
        entry(CLUSTER, alice, kind=ResourceType.CLUSTER, operation=Operation.CLUSTER_ACTION),
        entry(name, bob, kind=ResourceType.TRANSACTIONAL_ID, operation=Operation.WRITE),
        entry(alice, bob, kind=ResourceType.USER, operation=Operation.CREATE_TOKENS),
    ]
    player.ask("created", create(*entries))
    settle(player, alice, 6)
    settle(player, bob, 5)
    for who in (alice, bob, "User:nothing", "", "alice"):
        player.ask(f"of {who}", describe(selecting(who)))
        for pattern in range(1, 5):
            for wanted in (None, name, prefix, "*", "", f"{name}-more", CLUSTER):
                label = f"of {who}, pattern {pattern}, name {wanted}"
                player.ask(label, describe(selecting(who, pattern=pattern, name=wanted)))
    for kind in range(1, 8):
        player.ask(f"type {kind}", describe(selecting(alice, kind=kind)))
        player.ask(f"type {kind} by name", describe(selecting(bob, kind=kind, name=name, pattern=2)))
    for operation in range(1, 16):
        player.ask(f"operation {operation}", describe(selecting(alice, operation=operation)))
    for permission in (1, 2, 3):
        player.ask(f"permission {permission}", describe(selecting(bob, permission=permission)))
    for host in ("*", "h", "10.0.0.1", "", "10.0.0.2"):
        player.ask(f"host {host}", describe(selecting(alice, host=host)))
    for number in UNUSUAL:
        for field in ("kind", "pattern", "operation", "permission"):
            wanted = selecting(alice, **{field: number})
            player.ask(f"{field} {number}", describe(wanted))
            player.ask(f"delete by {field} {number}", delete(wanted))
            player.ask(f"delete by {field} {number} and a name", delete(selecting("User:nothing"), wanted))
    player.ask("no filters", delete())
    player.ask("delete nothing", delete(selecting("User:nothing"), selecting(alice, host="none")))
    player.ask("delete twice", delete(selecting(alice, name=name, kind=GROUP), selecting(alice, kind=GROUP)))
    player.ask("delete what applies", delete(selecting(bob, name=name, pattern=2, kind=TOPIC)))
    settle(player, bob, 3)
    player.ask("what is left", describe(selecting(bob)))
    player.ask("the rest", delete(selecting(alice), selecting(bob)))
    settle(player, alice, 0)
    settle(player, bob, 0)
    player.ask("none is left", describe(selecting(alice)))
