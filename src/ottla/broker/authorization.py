"""Authorization of requests, as the handlers use it.

Without an authorizer (`authorizer.class.name`) every request is authorized: `Authorization`. With one,
`AclAuthorization` checks principal and address of the client with the ACL entries, and writes an audit line for each
check: denied ones with level INFO, allowed ones with level DEBUG, as Kafka's logger `kafka.authorizer.logger` does.

Decisions are kept in the origin of the request until entries change. Code that skips the checks for a while, because
it has made them before, keeps `epoch` and checks again when it has changed.

Concurrency: the event loop only.
"""

from __future__ import annotations

import logging
from typing import Final

import structlog

from ottla.broker.net.origin import Origin
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.security.acls.authorizer import AclAuthorizer
from ottla.security.acls.decisions import Decisions
from ottla.security.acls.hosts import host_text
from ottla.security.acls.operations import ALL_OPERATIONS, SUPPORTED
from ottla.security.principal import NODE
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey

NO_AUTHORIZER: Final = "no authorizer is configured (authorizer.class.name)"
AUDIT_LOGGER: Final = "kafka.authorizer.logger"
_log = structlog.get_logger(AUDIT_LOGGER)


class Authorization:
    """No authorizer: every request is authorized."""

    enabled = False
    """Whether there is an authorizer."""
    epoch = 0
    """Changes when a decision may change."""

    def allows(
        self,
        origin: Origin,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        """Whether the client may perform the operation on this resource.

        `quiet` writes no audit line: for a resource that the client has not named, and that is only left out.
        """
        return True

    def allows_any(self, origin: Origin, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client may perform the operation on any resource of this type."""
        return True

    def operations(self, origin: Origin, resource_type: ResourceType, name: str) -> int:
        """The operations that the client may perform on this resource: bit n is operation n."""
        return SUPPORTED[resource_type]


class AclAuthorization(Authorization):
    """The checks of an authorizer with ACL entries."""

    enabled = True

    def __init__(self, authorizer: AclAuthorizer) -> None:
        self._authorizer = authorizer
        self._audits_allowed = _log.is_enabled_for(logging.DEBUG)
        self.epoch = 1

    # Entries

    def changed(self, delta: MetadataDelta, image: MetadataImage, *, loaded: bool) -> None:
        """Follow a change of the metadata. `loaded`: the image contains everything that is known to be committed."""
        changed = self._authorizer.apply(delta, image)
        if loaded and not self._authorizer.loaded:
            self._authorizer.loaded = changed = True
        if changed:
            self.epoch += 1

    # Checks

    def allows(
        self,
        origin: Origin,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        decisions = origin.decisions
        if decisions is None or decisions.epoch != self.epoch:
            decisions = self._renew(origin)
        operations = decisions.by_type[resource_type].get(name)
        if operations is None:
            operations = self._decide(origin, decisions, resource_type, name)
        if operations >> operation & 1:
            if self._audits_allowed and not quiet:
                _log.debug("allowed", **_described(origin, decisions, operation, resource_type, name))
            return True
        if not quiet:
            _log.info("denied", **_described(origin, decisions, operation, resource_type, name))
        return False

    def allows_any(self, origin: Origin, operation: Operation, resource_type: ResourceType) -> bool:
        decisions = origin.decisions
        if decisions is None or decisions.epoch != self.epoch:
            decisions = self._renew(origin)
        known = decisions.any_resource.get((operation, resource_type))
        if known is None:
            known = origin.principal is NODE or self._authorizer.allows_any(
                decisions.principal, decisions.host, origin.listener.name, operation, resource_type
            )
            decisions.any_resource[operation, resource_type] = known
        return known

    def operations(self, origin: Origin, resource_type: ResourceType, name: str) -> int:
        decisions = origin.decisions
        if decisions is None or decisions.epoch != self.epoch:
            decisions = self._renew(origin)
        operations = decisions.by_type[resource_type].get(name)
        if operations is None:
            operations = self._decide(origin, decisions, resource_type, name)
        return operations & SUPPORTED[resource_type]

    def _renew(self, origin: Origin) -> Decisions:
        decisions = origin.decisions = Decisions(self.epoch, origin.principal.text, host_text(origin.ip))
        return decisions

    def _decide(self, origin: Origin, decisions: Decisions, resource_type: ResourceType, name: str) -> int:
        if origin.principal is NODE:
            operations = ALL_OPERATIONS
        else:
            operations = self._authorizer.operations(
                decisions.principal, decisions.host, origin.listener.name, resource_type, name
            )
        decisions.keep(resource_type, name, operations)
        return operations


def _described(
    origin: Origin, decisions: Decisions, operation: Operation, resource_type: ResourceType, name: str
) -> dict[str, str]:
    """The values of an audit line."""
    return {
        "logger": AUDIT_LOGGER,
        "principal": decisions.principal,
        "operation": operation.name,
        "host": decisions.host,
        "resource": f"{_pascal_case(resource_type.name)}:LITERAL:{name}",
        "request": _request_name(origin.api_key),
    }


def _request_name(api_key: int) -> str:
    try:
        return _pascal_case(ApiKey(api_key).name)
    except ValueError:
        return "none"


def _pascal_case(name: str) -> str:
    return name.title().replace("_", "")
