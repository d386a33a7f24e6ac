"""DeleteTopics (key 20), versions 1-6: by name, from version 6 on by name or id. Decided by the controller."""

from __future__ import annotations

from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


@handles(ApiKey.DELETE_TOPICS, DeleteTopicsRequest, versions=(1, 6))
async def delete_topics(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    return await call.broker.controller.delete_topics(request, call.api_version)
