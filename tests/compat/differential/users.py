"""Requests about SCRAM users, client quotas, and delegation tokens of a client without an identity."""

from __future__ import annotations

from typing import Any

from ottla.wire.messages import alter_client_quotas
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.wire.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from tests.compat.differential.catalog import scenario
from tests.compat.differential.player import Player

Entity = dict[str, str | None]
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def upsert(name: str, mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=b"salted"
    )


def delete(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(*changes: ScramCredentialUpsertion | ScramCredentialDeletion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )


def users(*names: str) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names])


@scenario(AlterUserScramCredentialsRequest)
def scram_users(player: Player) -> None:
    alice, bob, carol = (player.topic(name) for name in ("alice", "bob", "carol"))

    def credentials(name: str) -> int:
        answer: Any = player.quietly(users(name), 0)
        return len(answer.results[0].credential_infos)

    player.ask("nothing", alter())
    player.ask("no user yet", users(alice))
    player.ask("two users", alter(upsert(alice), upsert(bob, 2, 8192)))
    player.ask("another mechanism", alter(upsert(alice, 2, 16_384)))
    player.until(lambda: credentials(alice) == 2)
    player.ask("described", users(alice, bob, carol))
    player.ask("described twice", users(alice, bob, alice))
    player.ask("everyone", users())
    player.ask("everyone by null", DescribeUserScramCredentialsRequest(users=None))
    for iterations in (-1, 0, 4095, 16_385, 2**31 - 1):
        player.ask(f"{iterations} iterations", alter(upsert(carol, 1, iterations)))
    for mechanism in (-1, 0, 3, 127):
        player.ask(f"mechanism {mechanism}", alter(upsert(carol, mechanism)))
        player.ask(f"no mechanism {mechanism}", alter(delete(alice, mechanism)))
    player.ask("no name", alter(upsert("")))
    player.ask("delete no name", alter(delete("")))
    player.ask("delete what is not there", alter(delete(carol), delete(bob, 1)))
    player.ask("delete and store one user", alter(delete(alice), upsert(alice, 2)))
    player.ask("store one user twice", alter(upsert(carol), upsert(carol, 2)))
    player.ask("delete one user twice", alter(delete(alice), delete(alice, 2)))
    player.ask("good and bad", alter(upsert(carol), upsert(bob, 9), delete(alice, 2), upsert("")))
    player.until(lambda: credentials(alice) == 1)
    player.ask("after that", users(alice, bob, carol))
    player.quietly(alter(delete(alice), delete(bob, 2), delete(carol)))
    player.until(lambda: credentials(carol) == 0)
    player.ask("no user is left", users(alice, bob, carol))


def entry(entity: Entity, **values: float | None) -> alter_client_quotas.EntryData:
    return alter_client_quotas.EntryData(
        entity=[
            alter_client_quotas.EntityData(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[
            alter_client_quotas.OpData(key=key, value=value or 0, remove=value is None)
            for key, value in values.items()
        ],
    )


def set_quotas(
    *entries: alter_client_quotas.EntryData, validate_only: bool = False
) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def component(kind: str, match_type: int, match: str | None = None) -> ComponentData:
    return ComponentData(entity_type=kind, match_type=match_type, match=match)


def quotas(*components: ComponentData, strict: bool = False) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(components=list(components), strict=strict)


def _wait(player: Player, entity: Entity, values: int) -> None:
    wanted = quotas(*(component(kind, EXACT, name) for kind, name in entity.items()), strict=True)

    def stored() -> bool:
        answer: Any = player.quietly(wanted)
        return sum(len(each.values) for each in answer.entries) == values

    player.until(stored)


@scenario(AlterClientQuotasRequest)
def client_quotas(player: Player) -> None:
    user, client, address = player.topic("user"), player.topic("client"), f"10.7.8.{player.version}"
    both: Entity = {"user": user, "client-id": client}
    player.ask("nothing", set_quotas())
    player.ask("none yet", quotas(component("user", EXACT, user)))
    player.ask("checked only", set_quotas(entry({"user": user}, producer_byte_rate=1.0), validate_only=True))
    player.ask("one", set_quotas(entry({"user": user}, producer_byte_rate=1e9, consumer_byte_rate=2e9)))
    player.ask("several", set_quotas(
        entry(both, request_percentage=250.5, controller_mutation_rate=0.25),
        entry({"user": user, "client-id": None}, producer_byte_rate=1e12),
        entry({"client-id": client}, consumer_byte_rate=1e12),
        entry({"ip": address}, connection_creation_rate=1e6),
    ))  # fmt: skip
    _wait(player, {"ip": address}, 1)
    for strict in (False, True):
        for name, components in {
            "user": [component("user", EXACT, user)],
            "user and any client": [component("user", EXACT, user), component("client-id", SPECIFIED)],
            "user and default client": [component("user", EXACT, user), component("client-id", DEFAULT)],
            "client": [component("client-id", EXACT, client)],
            "address": [component("ip", EXACT, address)],
            "no address": [component("ip", EXACT, "10.9.9.9")],
        }.items():
            player.ask(f"{name}, strict {strict}", quotas(*components, strict=strict))
    for name, components in {
        "empty type": [component("", SPECIFIED)],
        "unknown type": [component("group", EXACT, "x")],
        "type twice": [component("user", SPECIFIED), component("user", EXACT, user)],
        "null name": [component("user", EXACT)],
        "default with a name": [component("user", DEFAULT, user)],
        "any with a name": [component("user", SPECIFIED, user)],
        "match type 3": [component("user", 3, user)],
        "address and user": [component("ip", SPECIFIED), component("user", SPECIFIED)],
    }.items():
        player.ask(name, quotas(*components))
    for name, wanted in {
        "no entity": entry({}, producer_byte_rate=1.0),
        "unknown entity": entry({"group": "x"}, producer_byte_rate=1.0),
        "empty user": entry({"user": ""}, producer_byte_rate=1.0),
        "empty address": entry({"ip": ""}, connection_creation_rate=1.0),
        "address with a user": entry({"ip": address, "user": user}, connection_creation_rate=1.0),
        "bytes of an address": entry({"ip": address}, producer_byte_rate=1.0),
        "connections of a user": entry({"user": user}, connection_creation_rate=1.0),
        "unknown key": entry({"user": user}, bytes=1.0),
        "zero": entry({"user": user}, producer_byte_rate=0.0),
        "negative": entry({"user": user}, request_percentage=-1.0),
        "fraction": entry({"user": user}, producer_byte_rate=1.5),
        "too large": entry({"ip": address}, connection_creation_rate=2.0**31),
        "remove what is not there": entry({"user": user}, request_percentage=None),
        "remove an unknown key": entry({"user": user}, bytes=None),
    }.items():
        player.ask(name, set_quotas(wanted))
    player.ask("good and bad", set_quotas(
        entry({"user": user}, producer_byte_rate=5.0, consumer_byte_rate=-5.0),
        entry({"client-id": client}, consumer_byte_rate=7e12),
    ))  # fmt: skip
    player.ask(
        "changed and removed",
        set_quotas(entry({"user": user}, producer_byte_rate=6e9, consumer_byte_rate=None)),
    )
    _wait(player, {"user": user}, 1)
    player.ask("after that", quotas(component("user", EXACT, user)))
    player.quietly(set_quotas(
        entry(both, request_percentage=None, controller_mutation_rate=None),
        entry({"user": user}, producer_byte_rate=None),
        entry({"user": user, "client-id": None}, producer_byte_rate=None),
        entry({"client-id": client}, consumer_byte_rate=None),
        entry({"ip": address}, connection_creation_rate=None),
    ))  # fmt: skip
    _wait(player, {"ip": address}, 0)
    player.ask("none is left", quotas(component("user", EXACT, user)))


@scenario(CreateDelegationTokenRequest)
def token_creation(player: Player) -> None:
    """A client without an identity: every request is refused, before anything else is looked at."""
    player.ask("own", CreateDelegationTokenRequest(max_lifetime_ms=-1))
    odd = CreatableRenewers(principal_type="Group", principal_name="x")
    player.ask("odd renewer", CreateDelegationTokenRequest(renewers=[odd]))
    if player.version >= 3:
        player.ask(
            "for another",
            CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="alice"),
        )


@scenario(RenewDelegationTokenRequest)
def token_changes(player: Player) -> None:
    player.ask("renew", RenewDelegationTokenRequest(hmac=b"guess", renew_period_ms=-1))
    player.ask("expire", ExpireDelegationTokenRequest(hmac=b"guess", expiry_time_period_ms=-1))


@scenario(DescribeDelegationTokenRequest)
def token_descriptions(player: Player) -> None:
    player.ask("all", DescribeDelegationTokenRequest(owners=None))
    player.ask("none", DescribeDelegationTokenRequest(owners=[]))
