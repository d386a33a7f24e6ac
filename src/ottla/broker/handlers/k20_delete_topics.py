"""DeleteTopics (key 20), versions 1-6: by name, from version 6 on by name or id."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


@handles(
    ApiKey.DELETE_TOPICS,
    DeleteTopicsRequest,
    versions=(1, 6),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
)
@dataclass(frozen=True)
class DeleteTopics:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
        return await self.controller.delete_topics(request, call.api_version)
