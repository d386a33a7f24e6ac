from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.base.promise import Promise
from ottla.broker.quorum_responses import remove_endpoints, without
from ottla.wire.messages.vote import NodeEndpoint, VoteResponse
from ottla.wire.schema import Message


def test_a_response_in_an_old_version_has_no_endpoints() -> None:
    promise: Promise[Message] = Promise()
    response = without(promise, remove_endpoints)
    assert not response.done
    promise.keep(VoteResponse(node_endpoints=[NodeEndpoint(node_id=1)]))
    assert response.result() == VoteResponse()


def test_an_error_is_passed_on() -> None:
    promise: Promise[Message] = Promise()
    response = without(promise, remove_endpoints)
    promise.fail(LocalError("no quorum"))
    with pytest.raises(LocalError, match="no quorum"):
        response.result()
