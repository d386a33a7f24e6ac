"""The authorizer of a node: its settings, and how it follows the metadata.

`super.users` and `allow.everyone.if.no.acl.found` belong to the authorizer, not to Kafka's table of broker settings.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ottla.broker.authorization import AclAuthorization, Authorization
from ottla.broker.net.listeners import Listener
from ottla.config import BrokerConfig, ConfigRefused
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.security.acls.authorizer import STANDARD_AUTHORIZER, AclAuthorizer, parse_super_users

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


def make_authorization(config: AuthorizerConfig | None) -> Authorization:
    """The checks of one node; it authorizes super users only until it follows the metadata."""
    if config is None:
        return Authorization()
    return AclAuthorization(
        AclAuthorizer(
            config.super_users,
            allow_without_entries=config.allow_without_entries,
            early_start_listeners=config.early_start_listeners,
        )
    )


def follow_metadata(authorization: Authorization, publisher: MetadataPublisher) -> None:
    """Keep the ACL entries current. Call it before other listeners: a right that was revoked ends first."""
    if not isinstance(authorization, AclAuthorization):
        return

    def changed(delta: MetadataDelta, image: MetadataImage) -> None:
        authorization.changed(delta, image, loaded=publisher.caught_up)

    publisher.add_listener(changed)
