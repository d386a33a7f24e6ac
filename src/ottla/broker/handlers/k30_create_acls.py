"""CreateAcls (key 30), versions 1-3: creates ACL entries.

Without an authorizer the response is SECURITY_DISABLED. An entry with a field UNKNOWN closes the connection.
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
from ottla.controller.security.acls import refuse_create
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_acls import CreateAclsRequest, CreateAclsResponse

_DENIED: Final = denied_text(Operation.ALTER, ResourceType.CLUSTER)


@handles(
    ApiKey.CREATE_ACLS,
    CreateAclsRequest,
    versions=(1, 3),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
    requires=resources((Operation.ALTER, ResourceType.CLUSTER)),
)
@dataclass(frozen=True)
class CreateAcls:
    """Passes the request to the controller."""

    controller: ControllerPort
    authorization: Authorization

    async def handle(self, request: CreateAclsRequest, call: Call) -> CreateAclsResponse:
        for each in request.creations:
            fields = (each.resource_type, each.resource_pattern_type, each.operation, each.permission_type)
            if 0 in fields:
                raise RemoteProtocolError("an ACL entry has a field UNKNOWN")
        if not allows_cluster(self.authorization, call, Operation.ALTER):
            return refuse_create(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, _DENIED)
        if not self.authorization.enabled:
            return refuse_create(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
        return await self.controller.create_acls(request)
