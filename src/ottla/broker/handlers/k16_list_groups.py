"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

Version 4 can filter by state, version 5 by group type. Unknown names match nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from ottla.base.errors import ApiError
from ottla.broker.access import allows_cluster, name_filter
from ottla.broker.authorization import Authorization
from ottla.broker.coordination.coordinators import GroupCoordinator
from ottla.broker.coordination.group_requests import client_error
from ottla.broker.registry import Call, handles
from ottla.broker.requirements import resources
from ottla.security.resources import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@handles(
    ApiKey.LIST_GROUPS,
    ListGroupsRequest,
    versions=(0, 5),
    requires=resources((Operation.DESCRIBE, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.GROUP)),
)
@dataclass(frozen=True)
class ListGroups:
    """Reads the groups of all partitions that this broker coordinates."""

    authorization: Authorization
    groups: GroupCoordinator

    async def handle(self, request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
        try:
            found = await self.groups.read_all(lambda machine: machine.list_groups(request))
        except ApiError as error:
            return ListGroupsResponse(error_code=client_error(error))
        groups = [group for groups in found for group in groups]
        if not allows_cluster(self.authorization, call, Operation.DESCRIBE, quiet=True):
            visible = name_filter(
                self.authorization, call, Operation.DESCRIBE, ResourceType.GROUP, quiet=True
            )
            groups = [group for group in groups if visible is None or visible(group.group_id)]
        return ListGroupsResponse(groups=groups)
