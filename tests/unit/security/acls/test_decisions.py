from __future__ import annotations

from ottla.security.acls.decisions import NAMES_MAX, Decisions
from ottla.security.resources import ResourceType


def test_names_that_clients_choose_do_not_fill_the_memory() -> None:
    decisions = Decisions(1, "User:bob", "127.0.0.1")
    for number in range(3 * NAMES_MAX):
        decisions.keep(ResourceType.TOPIC, f"t{number}", 0)
        assert len(decisions.by_type[ResourceType.TOPIC]) <= NAMES_MAX
    decisions.keep(ResourceType.GROUP, "g" * 30_000, 0)
    assert not decisions.by_type[ResourceType.GROUP]


def test_types_are_separate() -> None:
    decisions = Decisions(1, "User:bob", "127.0.0.1")
    decisions.keep(ResourceType.TOPIC, "x", 7)
    assert decisions.by_type[ResourceType.TOPIC] == {"x": 7}
    assert decisions.by_type[ResourceType.USER] == {}
