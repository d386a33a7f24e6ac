"""DeleteGroups (key 42), versions 0-2: groups without members are forgotten, with their offsets.

A group named twice is deleted and answered once.
"""

from __future__ import annotations

import asyncio

from ottla.base.errors import ApiError
from ottla.broker.coordination.group_requests import code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


@handles(ApiKey.DELETE_GROUPS, DeleteGroupsRequest, versions=(0, 2))
async def delete_groups(request: DeleteGroupsRequest, call: Call) -> DeleteGroupsResponse:
    names = dict.fromkeys(request.groups_names)
    return DeleteGroupsResponse(results=list(await asyncio.gather(*(_delete(name, call) for name in names))))


async def _delete(group_id: str, call: Call) -> DeletableGroupResult:
    try:
        return await call.broker.groups.write(group_id, lambda machine: machine.delete_group(group_id))
    except ApiError as error:
        return DeletableGroupResult(group_id=group_id, error_code=code_of(error))
