"""Fetch (key 1) on the controller listener, versions 4-18: a replica of the quorum fetches the metadata log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.base.promise import Promise
from ottla.broker.registry import CONTROLLER, Call, handles
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.schema import Message


@handles(ApiKey.FETCH, FetchRequest, versions=(4, 18), listeners=CONTROLLER)
@dataclass(frozen=True)
class FetchMetadata:
    """Passes the request to the quorum."""

    quorum_requests: Callable[[Message], Promise[Message]]

    def handle(self, request: FetchRequest, call: Call) -> Promise[Message]:
        return self.quorum_requests(request)
