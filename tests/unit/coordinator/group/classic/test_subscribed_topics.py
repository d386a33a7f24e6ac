import pytest

from ottla.coordinator.group.classic.subscribed_topics import subscribed_topics, topics_of_subscription
from tests.support.classic_groups import subscription


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_topics_are_read_from_every_version(version: int) -> None:
    assert topics_of_subscription(subscription("orders", "bills", version=version)) == ["orders", "bills"]


def test_newer_versions_start_like_version_0() -> None:
    assert topics_of_subscription(b"\x00\x09" + subscription("orders")[2:] + b"more") == ["orders"]


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00",
        b"\x00\x00",
        b"\x00\x00\x00\x00\x00\x01",
        b"\xff\xff\x00\x00\x00\x00",
        b"\x00\x00\x7f\xff\xff\xff",
    ],
    ids=["empty", "half a version", "no array", "no name", "negative version", "more names than bytes"],
)
def test_other_bytes_are_not_a_subscription(metadata: bytes) -> None:
    assert topics_of_subscription(metadata) is None


def test_topics_are_known_only_if_all_subscriptions_are_readable() -> None:
    assert subscribed_topics([subscription("a", "b"), subscription("b", "c")]) == {"a", "b", "c"}
    assert subscribed_topics([subscription("a"), b"?"]) is None
