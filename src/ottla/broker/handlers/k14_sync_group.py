"""SyncGroup (key 14), versions 0-5: the leader of a classic group hands in its plan, every member gets its part.

From version 5 on the protocol must be named, so that members of different minds notice.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.coordination.group_requests import code_of
from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_NAMES_PROTOCOL: Final = 5


@handles(ApiKey.SYNC_GROUP, SyncGroupRequest, versions=(0, 5))
async def sync_group(request: SyncGroupRequest, call: Call) -> SyncGroupResponse:
    if call.api_version >= _NAMES_PROTOCOL and None in (request.protocol_type, request.protocol_name):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    try:
        return await call.broker.groups.write(request.group_id, lambda machine: machine.sync(request))
    except ApiError as error:
        return SyncGroupResponse(error_code=code_of(error))
