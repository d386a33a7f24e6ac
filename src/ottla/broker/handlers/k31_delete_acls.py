"""DeleteAcls (key 31), versions 1-3: removes the ACL entries that filters select.

Without an authorizer the response is SECURITY_DISABLED. A filter with a field UNKNOWN closes the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ErrorCode, RemoteProtocolError
from ottla.broker.access import allows_cluster, denied_text
from ottla.broker.authorization import NO_AUTHORIZER, Authorization
from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.broker.requirements import resources
from ottla.controller.port import ControllerPort
from ottla.controller.security.acls import refuse_delete
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_acls import DeleteAclsRequest, DeleteAclsResponse

_DENIED: Final = denied_text(Operation.ALTER, ResourceType.CLUSTER)


@handles(
    ApiKey.DELETE_ACLS,
    DeleteAclsRequest,
    versions=(1, 3),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=resources((Operation.ALTER, ResourceType.CLUSTER)),
)
@dataclass(frozen=True)
class DeleteAcls:
    """Passes the request to the controller."""

    controller: ControllerPort
    authorization: Authorization

    async def handle(self, request: DeleteAclsRequest, call: Call) -> DeleteAclsResponse:
        for each in request.filters:
            fields = (
                each.resource_type_filter,
                each.pattern_type_filter,
                each.operation,
                each.permission_type,
            )
            if 0 in fields:
                raise RemoteProtocolError("a filter of ACL entries has a field UNKNOWN")
        if not allows_cluster(self.authorization, call, Operation.ALTER):
            return refuse_delete(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _DENIED)
        if not self.authorization.enabled:
            return refuse_delete(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return await self.controller.delete_acls(request)
