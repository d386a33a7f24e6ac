"""Responses of the quorum in old versions of its APIs: fields that a version does not have cannot be encoded there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.base.promise import Promise
from ottla.wire.schema import Message


def without(promise: Promise[Message], remove: Callable[[Any], None]) -> Promise[Message]:
    """The response after `remove` has removed fields from it."""
    found: Promise[Message] = Promise()

    def done(response: Any, error: BaseException | None) -> None:
        if error is not None:
            found.fail(error)
            return
        remove(response)
        found.keep(response)

    promise.when_done(done)
    return found


def remove_endpoints(response: Any) -> None:
    """Remove the address of the leader."""
    response.node_endpoints = []
