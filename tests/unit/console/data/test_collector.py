"""The brokers of a snapshot: listed ones, and those that are known from before."""

from __future__ import annotations

from ottla.console.data.collector import brokers_of
from ottla.console.data.snapshot import Broker
from ottla.wire.messages.metadata import MetadataResponse, MetadataResponseBroker


def listed(*node_ids: int) -> MetadataResponse:
    brokers = [MetadataResponseBroker(node_id=each, host="h", port=each, rack="R") for each in node_ids]
    return MetadataResponse(brokers=brokers)


def states(brokers: tuple[Broker, ...]) -> dict[int, str]:
    return {each.node_id: each.state for each in brokers}


def test_listed_brokers_run_and_one_of_them_is_the_controller() -> None:
    found = brokers_of(listed(1, 0), {}, (), 1)
    assert [(each.node_id, each.address, each.is_controller) for each in found] == [
        (0, "h:0", False),
        (1, "h:1", True),
    ]
    assert brokers_of(listed(0), {}, (), None)[0].is_controller is False
    assert states(brokers_of(listed(0), {}, (), 7)) == {0: "running"}


def test_a_broker_that_is_not_listed_any_more_is_fenced_or_in_the_state_of_its_process() -> None:
    before = brokers_of(listed(0, 1), {}, (), 1)
    assert states(brokers_of(listed(0), {}, before, None)) == {0: "running", 1: "fenced"}
    for state in ("killed", "paused", "stopped"):
        after = brokers_of(listed(0), {0: "running", 1: state}, before, None)
        assert states(after) == {0: "running", 1: state}
    assert states(brokers_of(listed(0), {0: "running", 1: "running"}, before, None))[1] == "fenced"


def test_a_killed_broker_that_is_still_listed_is_shown_as_killed() -> None:
    assert states(brokers_of(listed(0, 1), {0: "running", 1: "killed"}, (), None))[1] == "killed"


def test_a_broker_that_was_started_again_is_starting_until_it_is_listed() -> None:
    killed = (Broker(0, "h:0", None, "killed"),)
    starting = brokers_of(listed(), {0: "running"}, killed, None)
    assert states(starting) == {0: "starting"}
    assert states(brokers_of(listed(), {0: "running"}, starting, None)) == {0: "starting"}
    assert states(brokers_of(listed(0), {0: "running"}, starting, None)) == {0: "running"}
