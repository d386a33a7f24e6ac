"""Rights that the client of a request needs, as the handlers declare them.

The router enforces a requirement on the whole cluster: without one of the operations the request gets the error
response of its API with CLUSTER_AUTHORIZATION_FAILED. A requirement on resources is enforced by the handler, which gets
the names of the resources from the request. The declaration lists all rights that the handler checks.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.security.resources import Operation, ResourceType


class Right(NamedTuple):
    """An operation on resources of one type."""

    operation: Operation
    resource_type: ResourceType


class Requirement(NamedTuple):
    """What one API requires; `cluster`, `resources` and `NOTHING` create it."""

    cluster: tuple[Operation, ...] = ()
    """Operations on the cluster, of which the client needs one; the router enforces it."""
    rights: tuple[Right, ...] = ()
    """The rights that the handler checks."""


NOTHING: Final = Requirement()
"""Every client may send the request, also before it has any right."""


def cluster(*operations: Operation) -> Requirement:
    """The client needs one of these operations on the cluster."""
    return Requirement(cluster=operations)


def resources(*rights: tuple[Operation, ResourceType]) -> Requirement:
    """The handler checks these rights with the names in the request."""
    return Requirement(rights=tuple(Right(*right) for right in rights))
