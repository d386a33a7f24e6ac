"""The settings of the authorizer of a node.

`super.users` and `allow.everyone.if.no.acl.found` belong to the authorizer, not to Kafka's table of broker settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ottla.broker.net.listeners import Listener
from ottla.config import BrokerConfig, ConfigRefused
from ottla.security.acls.authorizer import STANDARD_AUTHORIZER, parse_super_users

CLASS_NAME = "authorizer.class.name"
SUPER_USERS = "super.users"
ALLOW_WITHOUT_ENTRIES = "allow.everyone.if.no.acl.found"
EARLY_START = "early.start.listeners"
AUTHORIZER_SETTINGS = frozenset({SUPER_USERS, ALLOW_WITHOUT_ENTRIES})


class AuthorizerConfig(Struct, frozen=True):
    """The settings of the authorizer."""

    super_users: frozenset[str]
    allow_without_entries: bool
    early_start_listeners: frozenset[str]
    """Listeners on which super users are served before the ACL entries are loaded."""


def parse_authorizer(
    config: BrokerConfig, clients: Sequence[Listener], controllers: Sequence[Listener]
) -> AuthorizerConfig | None:
    """Read the settings of the authorizer; None without one."""
    early = _early_start_listeners(config, clients, controllers)
    name = config.str(CLASS_NAME)
    if not name:
        for setting in sorted(AUTHORIZER_SETTINGS & config.explicit.keys()):
            text = (
                f"{setting} is set, but {CLASS_NAME} is not: every request would be authorized; "
                f"set {CLASS_NAME}={STANDARD_AUTHORIZER}, or remove {setting}"
            )
            raise ConfigRefused(setting, text)
        return None
    if name != STANDARD_AUTHORIZER:
        text = f"{CLASS_NAME}={name!r}; allowed: {STANDARD_AUTHORIZER}, or empty for no authorizer"
        raise ConfigRefused(CLASS_NAME, text)
    try:
        users = parse_super_users(config.explicit.get(SUPER_USERS, ""))
    except ValueError as error:
        raise ConfigRefused(SUPER_USERS, f"{SUPER_USERS}: {error}; separate users by semicolons") from error
    return AuthorizerConfig(users, _allows_without_entries(config), early)


def _allows_without_entries(config: BrokerConfig) -> bool:
    text = config.explicit.get(ALLOW_WITHOUT_ENTRIES, "false").strip()
    if text.lower() not in ("true", "false"):
        raise ConfigRefused(
            ALLOW_WITHOUT_ENTRIES, f"{ALLOW_WITHOUT_ENTRIES}={text!r}; allowed: true or false"
        )
    return text.lower() == "true"


def _early_start_listeners(
    config: BrokerConfig, clients: Sequence[Listener], controllers: Sequence[Listener]
) -> frozenset[str]:
    if config.value(EARLY_START) is None:
        return frozenset(each.name for each in controllers)
    names = {name.upper() for name in config.list(EARLY_START) if name}
    known = {each.name for each in (*clients, *controllers)}
    known |= {name.upper() for name in config.list("controller.listener.names")}
    for name in sorted(names - known):
        text = f"{EARLY_START}: {name} is not in listeners or controller.listener.names"
        raise ConfigRefused(EARLY_START, text)
    return frozenset(names)
