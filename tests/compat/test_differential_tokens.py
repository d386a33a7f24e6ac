"""Delegation tokens on Apache Kafka and on Ottla, with SASL: the same requests of two users, compared."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from bench.peers import ONE_NODE, KafkaPeer
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.wire.schema import Message
from tests.compat.differential.catalog import Scenario
from tests.compat.differential.comparison import differences
from tests.compat.differential.player import Player, now_ms
from tests.support.raw import Address, RawClient
from tests.support.sasl import SaslClient, plain_jaas

pytestmark = pytest.mark.compat

MINUTE_MS = 60_000
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.clients.plain.sasl.jaas.config": plain_jaas(own=None),
    "delegation.token.secret.key": "a-key",
}


class TokenPlayer(Player):
    """A user of one broker. Ids and secrets of tokens differ; times are compared in minutes from now."""

    user = "alice"

    @property
    def client(self) -> RawClient:
        if self._client is None:
            made = SaslClient(f"{self.address.host}:{self.address.port}")
            made.login(self.user)
            self._client = made
        return self._client

    def become(self, user: str) -> None:
        self.reconnect()
        self.user = user

    def plain(self, value: Any, of: Message | None = None, name: str = "") -> Any:
        if name == "hmac":
            return f"{len(value)} bytes"
        if name == "token_id":
            return "a token" if value else ""
        if "timestamp" in name and value > 0:
            return f"{round((value - now_ms()) / MINUTE_MS)} min"
        return super().plain(value, of, name)


def creation(
    *renewers: str, owner: str = "", kind: str = "User", lifetime_ms: int = -1
) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type="User" if owner else "",
        owner_principal_name=owner,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )


def described(*owners: str) -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest(
        owners=[DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    )


def play(player: TokenPlayer) -> None:
    version = player.version
    changes = min(version, 2)

    def count(request: DescribeDelegationTokenRequest) -> int:
        answer: Any = player.quietly(request, version)
        return len(answer.tokens)

    def expiries(request: DescribeDelegationTokenRequest) -> list[int]:
        answer: Any = player.quietly(request, version)
        return [each.expiry_timestamp for each in answer.tokens]

    made = player.ask("own", creation("bob"))
    player.ask("odd renewer", creation("bob", kind="Group"))
    hour = player.ask("an hour", creation(lifetime_ms=60 * MINUTE_MS))
    player.ask("longer than allowed", creation(lifetime_ms=2**62))
    if version >= 3:
        player.ask("for carol", creation("alice", owner="carol"))
    player.until(lambda: count(described("alice")) >= 3 + (version >= 3))
    player.ask("all", DescribeDelegationTokenRequest(owners=None))
    player.ask("no owner", described())
    player.ask("of carol", described("carol"))
    renewal = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=30 * MINUTE_MS)
    player.ask("renew", renewal, changes)
    player.ask("renew by default", RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1), changes)
    player.ask(
        "renew beyond its time", RenewDelegationTokenRequest(hmac=hour.hmac, renew_period_ms=-1), changes
    )
    player.ask("renew a guess", RenewDelegationTokenRequest(hmac=b"guess", renew_period_ms=-1), changes)
    player.ask("expire a guess", ExpireDelegationTokenRequest(hmac=b"guess"), changes)
    player.ask(
        "expire later",
        ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=20 * MINUTE_MS),
        changes,
    )
    player.become("bob")
    renewed = player.ask("bob renews", renewal, changes)
    player.ask("bob renews a foreign one", RenewDelegationTokenRequest(hmac=hour.hmac), changes)
    player.ask("bob expires a foreign one", ExpireDelegationTokenRequest(hmac=hour.hmac), changes)
    player.until(lambda: renewed.expiry_timestamp_ms in expiries(described("alice")))
    player.ask("bob sees", described("alice"))
    player.ask("bob expires", ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1), changes)
    player.become("alice")
    player.until(lambda: count(described("bob")) == 0)
    player.ask("renew a removed one", renewal, changes)
    remaining: Any = player.quietly(DescribeDelegationTokenRequest(owners=None), version)
    for each in remaining.tokens:
        player.ask(
            "clean up", ExpireDelegationTokenRequest(hmac=each.hmac, expiry_time_period_ms=-1), changes
        )
    player.until(lambda: count(described("alice", "carol")) == 0)


@pytest.fixture(scope="module")
def addresses(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Address]]:
    """The listeners with SASL; Kafka is ready when its other listener responds."""
    home = tmp_path_factory.mktemp("tokens")
    kafka, port, own = KafkaPeer(home / "kafka", SETTINGS), free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{kafka.port},CLIENTS://127.0.0.1:{port}"
    kafka.overrides["listeners"] = f"{listeners},CONTROLLER://127.0.0.1:{kafka.controller_port}"
    kafka.overrides["advertised.listeners"] = listeners
    ottla = BrokerProcess(home / "ottla")
    both = f"PLAINTEXT://{ottla.bootstrap},CLIENTS://127.0.0.1:{own}"
    ottla = BrokerProcess(home / "ottla", ONE_NODE | SETTINGS | {"listeners": both}, port=ottla.port)
    with kafka, ottla:
        yield [Address("127.0.0.1", port), Address("127.0.0.1", own)]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_responses_are_the_same_as_kafkas(addresses: list[Address], version: int) -> None:
    players = [TokenPlayer(address, "tokens", version) for address in addresses]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(play, players))
    for player in players:
        player.reconnect()
    scenario = Scenario("tokens", play, version)  # type: ignore[arg-type]
    left = list(differences(scenario, *(player.asked for player in players)))
    assert not left, "\n".join(map(str, left[:40]))
    assert len(players[0].asked) >= 18
