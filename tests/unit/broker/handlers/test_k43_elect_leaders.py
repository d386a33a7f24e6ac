"""ElectLeaders: the error code of the whole request exists from version 1 on."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.handlers.k43_elect_leaders import ElectLeaders
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.controller.port import ControllerPort
from ottla.wire import codec
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse


class Controller:
    async def elect_leaders(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        return ElectLeadersResponse(error_code=ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize(("version", "code"), [(0, 0), (1, 41), (2, 41)])
def test_every_version_can_carry_a_refusal(version: int, code: int) -> None:
    handler = ElectLeaders(cast(ControllerPort, Controller()))
    call = Call(version, 1, None, Origin(Listener("PLAINTEXT", "", 0, "", 0), "127.0.0.1", 1))
    response = asyncio.run(handler.handle(ElectLeadersRequest(topic_partitions=None), call))
    assert response.error_code == code
    codec.encode(response, version)
