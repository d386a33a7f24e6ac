"""Invalid and unusual requests over a socket: each gets the expected response; other clients are not affected."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.bad_input import ROWS, Row, prepare
from tests.support.raw import Address, Closed, RawClient


@pytest.fixture(scope="module")
def bystander(broker: BrokerProcess) -> Iterator[RawClient]:
    """A connection that is open all the while."""
    with RawClient(Address.parse(broker.bootstrap)) as client:
        prepare(client)
        yield client


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_answer(
    row: Row, broker: BrokerProcess, bystander: RawClient, request: pytest.FixtureRequest
) -> None:
    with RawClient(Address.parse(broker.bootstrap)) as client:
        seen = row.play(client)

    assert seen == (row.kafka if request.config.getoption("--on-kafka") else row.expected)
    alive = bystander.ask(ApiVersionsRequest(), 0, ApiVersionsResponse)
    assert not isinstance(alive, Closed)
    assert alive.error_code == 0
