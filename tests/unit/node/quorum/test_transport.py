"""Evidence that a voter has ended, from the connection for fetches."""

from __future__ import annotations

import pytest

from ottla.node.quorum.addresses import ControllerAddresses
from ottla.node.quorum.transport import PeerTransport
from ottla.node.settings.quorum_config import VoterAddress
from ottla.peer.errors import PeerError, Reason
from tests.unit.peer.fakes import FakeNetwork, FakeTimers, environment


@pytest.fixture
def lost() -> list[int]:
    return []


@pytest.fixture
def transport(lost: list[int]) -> PeerTransport:
    ports = environment(FakeTimers(), FakeNetwork())
    addresses = ControllerAddresses(1, [VoterAddress(2, "two", 9093)])
    return PeerTransport(1, addresses, ports, lost.append)


def fail(transport: PeerTransport, reason: Reason) -> None:
    transport.on_disconnected(2, PeerError(reason, reason.value))


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ([Reason.CLOSED], []),
        ([Reason.CLOSED, Reason.REFUSED], [2]),
        ([Reason.CLOSED, Reason.CLOSED], [2]),
        ([Reason.REFUSED], [2]),
        ([Reason.TIMED_OUT, Reason.UNREACHABLE], []),
    ],
)
def test_lost_after_a_refusal_or_a_second_close(
    transport: PeerTransport, lost: list[int], reasons: list[Reason], expected: list[int]
) -> None:
    for reason in reasons:
        fail(transport, reason)
    assert lost == expected


def test_an_open_connection_ends_the_suspicion(transport: PeerTransport, lost: list[int]) -> None:
    fail(transport, Reason.CLOSED)
    transport.on_connected(2)
    fail(transport, Reason.CLOSED)
    assert lost == []
