"""DescribeAcls (key 29), versions 1-3: the ACL entries that a filter selects, by resource.

Without an authorizer the response is SECURITY_DISABLED. A filter with a field UNKNOWN closes the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.broker.access import allows_cluster, denied_text
from ottla.broker.authorization import NO_AUTHORIZER, Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import resources
from ottla.metadata.records import AccessControlEntryRecord
from ottla.security.acls.filters import AclFilter
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_DENIED: Final = denied_text(Operation.DESCRIBE, ResourceType.CLUSTER)


@handles(
    ApiKey.DESCRIBE_ACLS,
    DescribeAclsRequest,
    versions=(1, 3),
    listeners=BROKER_AND_CONTROLLER,
    requires=resources((Operation.DESCRIBE, ResourceType.CLUSTER)),
)
@dataclass(frozen=True)
class DescribeAcls:
    """Reads the entries of the current image."""

    metadata: MetadataCache
    authorization: Authorization

    def handle(self, request: DescribeAclsRequest, call: Call) -> DescribeAclsResponse:
        fields = (
            request.resource_type_filter,
            request.pattern_type_filter,
            request.operation,
            request.permission_type,
        )
        if 0 in fields:
            raise RemoteProtocolError("a filter of ACL entries has a field UNKNOWN")
        if not allows_cluster(self.authorization, call, Operation.DESCRIBE):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            return DescribeAclsResponse(error_code=code, error_message=_DENIED)
        if not self.authorization.enabled:
            return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)
        wanted = AclFilter.of(request)
        found = [entry for entry in self.metadata.image.acls.values() if wanted.matches(entry)]
        resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
        for entry in sorted(found, key=_order):
            resource = resources.setdefault(_resource(entry), _described(entry))
            resource.acls.append(
                AclDescription(
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission_type,
                )
            )
        return DescribeAclsResponse(resources=list(resources.values()))


def _order(entry: AccessControlEntryRecord) -> tuple[object, ...]:
    return (*_resource(entry), entry.principal, entry.host, entry.operation, entry.permission_type)


def _resource(entry: AccessControlEntryRecord) -> tuple[int, str, int]:
    return entry.resource_type, entry.resource_name, entry.pattern_type


def _described(entry: AccessControlEntryRecord) -> DescribeAclsResource:
    return DescribeAclsResource(
        resource_type=entry.resource_type,
        resource_name=entry.resource_name,
        pattern_type=entry.pattern_type,
        acls=[],
    )
