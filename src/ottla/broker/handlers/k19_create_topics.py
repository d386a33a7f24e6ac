"""CreateTopics (key 19), versions 2-7. Decided by the controller; answered when the topics can be used."""

from __future__ import annotations

from ottla.broker.registry import Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


@handles(ApiKey.CREATE_TOPICS, CreateTopicsRequest, versions=(2, 7))
async def create_topics(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    return await call.broker.controller.create_topics(request)
