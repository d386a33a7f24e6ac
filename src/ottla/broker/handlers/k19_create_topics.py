"""CreateTopics (key 19), versions 2-7: the response is sent when the topics can be used."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.broker.registry import BROKER_AND_CONTROLLER, Call, handles
from ottla.controller.port import ControllerPort
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


@handles(
    ApiKey.CREATE_TOPICS,
    CreateTopicsRequest,
    versions=(2, 7),
    listeners=BROKER_AND_CONTROLLER,
    forwarded=True,
)
@dataclass(frozen=True)
class CreateTopics:
    """Passes the request to the controller."""

    controller: ControllerPort

    async def handle(self, request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
        return await self.controller.create_topics(request)
