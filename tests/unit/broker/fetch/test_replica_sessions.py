"""Fetch sessions of followers."""

from __future__ import annotations

import pytest

from ottla.base.errors import ErrorCode
from tests.support.replica_fetches import Broker, Follower


def test_a_follower_has_one_session() -> None:
    """A request of the session before, which may arrive late, is not served."""
    broker = Broker()
    before, other, after = Follower(broker), Follower(broker, 3), Follower(broker)
    before.fetch({0: 0}, wait_ms=0)
    other.fetch({0: 0}, wait_ms=0)
    after.fetch({0: 0}, wait_ms=0)
    with pytest.raises(AssertionError, match=str(int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND))):
        before.fetch({})
    other.fetch({})
    after.fetch({})
