"""Settings that conflict with the guarantees are rejected; dead letters use the same cluster."""

from __future__ import annotations

import pytest

from ottla.base.errors import LocalError
from ottla.client.parallel.options import Options
from ottla.client.parallel.settings import consumer_settings, dead_letter_settings, is_cooperative


def on_commit(*_: object) -> None: ...


def test_the_settings_of_the_user_are_kept() -> None:
    made = consumer_settings({"group.id": "g", "client.id": "c"}, Options(), on_commit)
    assert made == {
        "group.id": "g",
        "client.id": "c",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "on_commit": on_commit,
    }


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, "group.id"),
        ({"group.id": ""}, "group.id"),
        ({"group.id": "g", "enable.auto.commit": True}, "enable.auto.commit"),
        ({"group.id": "g", "enable.auto.offset.store": "true"}, "enable.auto.offset.store"),
        ({"group.id": "g", "enable.partition.eof": False}, "enable.partition.eof"),
        ({"group.id": "g", "on_commit": on_commit}, "on_commit"),
        ({"group.id": "g", "max.poll.interval.ms": 10_000}, "handover_timeout_s"),
    ],
)
def test_conflicting_settings_are_rejected_by_name(given: dict[str, object], names: str) -> None:
    with pytest.raises(LocalError, match=names):
        consumer_settings(given, Options(), on_commit)


def test_equal_values_in_another_spelling_are_accepted() -> None:
    given = {"group.id": "g", "enable.auto.commit": "false", "enable.partition.eof": "True"}
    assert consumer_settings(given, Options(), on_commit)["enable.auto.commit"] is False


def test_cooperative_assignment_is_detected_from_the_settings() -> None:
    assert is_cooperative({"group.protocol": "consumer"})
    assert is_cooperative({"partition.assignment.strategy": "cooperative-sticky"})
    assert not is_cooperative({"partition.assignment.strategy": "range,roundrobin"})
    assert not is_cooperative({})


def test_dead_letters_inherit_how_to_connect_and_are_durable() -> None:
    given = {"bootstrap.servers": "b", "sasl.username": "u", "group.id": "g", "auto.offset.reset": "earliest"}
    assert dead_letter_settings(given, {"linger.ms": 5}) == {
        "bootstrap.servers": "b",
        "sasl.username": "u",
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 5,
    }
