"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

Version 4 can ask for certain states, version 5 for certain kinds of groups. Names that nobody knows match nothing.
"""

from __future__ import annotations

from ottla.base.errors import ApiError
from ottla.broker.coordination.group_requests import code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


@handles(ApiKey.LIST_GROUPS, ListGroupsRequest, versions=(0, 5))
async def list_groups(request: ListGroupsRequest, call: Call) -> ListGroupsResponse:
    try:
        found = await call.broker.groups.read_all(lambda machine: machine.list_groups(request))
    except ApiError as error:
        return ListGroupsResponse(error_code=code_of(error))
    return ListGroupsResponse(groups=[group for groups in found for group in groups])
