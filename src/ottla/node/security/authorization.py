"""The authorizer of a node, and how it follows the metadata."""

from __future__ import annotations

from ottla.broker.authorization import AclAuthorization, Authorization
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.publisher import MetadataPublisher
from ottla.node.settings.authorizer_config import AuthorizerConfig
from ottla.security.acls.authorizer import AclAuthorizer


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
