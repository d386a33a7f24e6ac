"""Scenarios played by users with few rights: an administrator prepares, the user sends what is compared.

The broker has an authorizer and a listener with SASL/PLAIN. `Player.quietly`, with which scenarios create topics and
wait, is the administrator. A scenario that cannot continue because the user was denied something ends there; both
brokers must end it at the same point.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ottla.security.resources import CLUSTER, Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation
from ottla.wire.schema import Message
from tests.compat.differential.acls import create, entry
from tests.compat.differential.player import CLOSED, SILENCE, Player, response_class
from tests.support.sasl import SaslClient
from tests.support.waiting import wait_until

PASSWORDS = {name: f"{name}-secret" for name in ("admin", "alice", "bob", "carol", "dave")}
TOPIC, GROUP, TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
PREFIXED, DENY = PatternType.PREFIXED, Permission.DENY
_WAIT_S = 5.0


class Ended(Exception):
    """The scenario waits for something that the user was not allowed to cause."""


def entries_of(user: str, prefix: str) -> list[AclCreation]:
    """The rights of a user on the resources of one scenario."""

    def on(kind: int, operation: int, permission: int = Permission.ALLOW) -> AclCreation:
        who = f"User:{user}"
        return entry(prefix, who, kind=kind, pattern=PREFIXED, operation=operation, permission=permission)

    if user == "bob":
        return [
            on(TOPIC, Operation.READ),
            on(GROUP, Operation.DESCRIBE),
            on(TXN, Operation.DESCRIBE),
        ]
    if user == "carol":
        return [
            on(TOPIC, Operation.ALL),
            on(TOPIC, Operation.WRITE, DENY),
            on(TOPIC, Operation.ALTER_CONFIGS, DENY),
            on(GROUP, Operation.ALL),
            on(GROUP, Operation.DELETE, DENY),
            on(TXN, Operation.WRITE),
        ]
    if user == "dave":
        return [entry(CLUSTER, "User:dave", kind=ResourceType.CLUSTER, operation=Operation.ALL)]
    return []


@dataclass
class RightsPlayer(Player):
    """A player whose compared requests are sent by a user."""

    user: str = "alice"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._users: dict[str, SaslClient] = {}

    def as_user(self, name: str) -> SaslClient:
        client = self._users.get(name)
        if client is None:
            # Responses contain the address of the client: it must be the same for both brokers.
            bootstrap = f"{self.address.host}:{self.address.port}"
            client = self._users[name] = SaslClient(bootstrap, source=self.address.host)
            client.set_timeout(self.timeout_s)
            client.login(name, PASSWORDS[name])
        return client

    @property
    def client(self) -> SaslClient:
        return self.as_user("admin")

    def reconnect(self) -> None:
        for client in self._users.values():
            client.__exit__()
        self._users.clear()

    def ask(self, label: str, request: Message, version: int | None = None) -> Any:
        response = self._send(self.user, request, version)
        self.asked.append((label, self.plain(response)))
        return response

    def quietly(self, request: Message, version: int | None = None) -> Any:
        return self._send("admin", request, version)

    def _send(self, user: str, request: Message, version: int | None) -> Any:
        wanted = self.version if version is None else version
        try:
            response: Any = self.as_user(user).ask(request, wanted, response_class(request))
        except TimeoutError:
            response = SILENCE
        if response is CLOSED or response is SILENCE:
            self._users.pop(user).__exit__()
        return response

    def until(self, condition: Callable[[], bool]) -> None:
        try:
            wait_until(condition, "the state", _WAIT_S)
        except AssertionError:
            raise Ended from None

    def topic_id(self, topic: str) -> uuid.UUID:
        self.learn(topic)
        return super().topic_id(topic)


def grant(player: RightsPlayer, users: Iterable[str]) -> None:
    """Create the entries of users for the resources of a player."""
    for user in users:
        wanted = entries_of(user, player.prefix)
        if wanted:
            response = player.quietly(create(*wanted), 3)
            assert all(each.error_code == 0 for each in response.results), response


def play(player: RightsPlayer, scenario: Callable[[Player], None]) -> None:
    """Play until the end, or until the scenario cannot continue without the rights of the user."""
    grant(player, [player.user])
    try:
        scenario(player)
    except (Ended, AssertionError, LookupError, TypeError, AttributeError, StopIteration) as error:
        player.keep("ended by", type(error).__name__)
    finally:
        player.reconnect()
