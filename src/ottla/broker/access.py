"""Checks of rights that the handlers share: the error codes of denied resources, and filters by name.

Without an authorizer a filter is None, so that a handler does nothing for each name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import Uuid
from ottla.security.resources import CLUSTER, Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.authorization import Authorization
    from ottla.broker.registry import Call
    from ottla.metadata.image import MetadataImage

NameFilter = Callable[[str], bool] | None
"""Whether the client has a right on the resource with this name; None: on every resource."""

NOT_REQUESTED: Final = -(2**31)
"""The bit field of authorized operations that the request does not ask for."""

DENIED: Final[Mapping[ResourceType, ErrorCode]] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


def check(
    authorization: Authorization, call: Call, operation: Operation, resource_type: ResourceType, name: str
) -> None:
    """Raise ApiError with the error code of the type if the client lacks the right."""
    if not authorization.allows(call.origin, operation, resource_type, name):
        raise ApiError(DENIED[resource_type], denied_text(operation, resource_type))


def denied_text(operation: Operation, resource_type: ResourceType) -> str:
    """The message of a denied operation; it does not depend on the existence of the resource."""
    kind = resource_type.name.lower().replace("_", " ")
    return f"the client does not have the right {operation.name} on the {kind}"


def allows_cluster(
    authorization: Authorization, call: Call, operation: Operation, *, quiet: bool = False
) -> bool:
    """Whether the client may perform the operation on the cluster."""
    return authorization.allows(call.origin, operation, ResourceType.CLUSTER, CLUSTER, quiet=quiet)


def name_filter(
    authorization: Authorization,
    call: Call,
    operation: Operation,
    resource_type: ResourceType,
    *,
    quiet: bool = False,
) -> NameFilter:
    """The filter for resources of one type. `quiet`: the client has not named them, they are only left out."""
    if not authorization.enabled:
        return None
    origin = call.origin

    def is_allowed(name: str) -> bool:
        return authorization.allows(origin, operation, resource_type, name, quiet=quiet)

    return is_allowed


def cluster_operations(authorization: Authorization, call: Call) -> int:
    """The bit field of operations on the cluster; none for a client that may not describe it."""
    if not allows_cluster(authorization, call, Operation.DESCRIBE):
        return 0
    return authorization.operations(call.origin, ResourceType.CLUSTER, CLUSTER)


def check_missing(
    authorization: Authorization,
    call: Call,
    operation: Operation,
    image: MetadataImage,
    key: bytes,
    *,
    by_id: bool,
) -> None:
    """Raise ApiError if the client lacks the right on a topic whose partition this broker does not have.

    `key` is the name or the id of the topic on the wire. This hides whether the topic exists; an id that no topic has
    is not hidden.
    """
    if by_id:
        topic = image.topics.by_id.get(Uuid(bytes=key))
        if topic is not None:
            check(authorization, call, operation, ResourceType.TOPIC, topic.name)
    else:
        check(authorization, call, operation, ResourceType.TOPIC, key.decode("utf-8", "replace"))
