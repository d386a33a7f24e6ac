"""Checks of rights that the handlers share."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker import access
from ottla.broker.authorization import Authorization
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call
from ottla.metadata.image import MetadataImage, TopicImage, TopicsImage
from ottla.security.resources import CLUSTER, Operation, ResourceType

CALL = Call(1, 1, None, Origin(Listener("A", "", 0, "", 0), "127.0.0.1", 1))
ID = uuid.UUID(int=7)
TOPIC = TopicImage("hidden", ID, {})
IMAGE = MetadataImage(topics=TopicsImage({"hidden": TOPIC}, {ID: TOPIC}))


class Visible(Authorization):
    """Allows everything on resources with the name `visible` and on the cluster, if that is set."""

    enabled = True

    def __init__(self, *, cluster: bool = False) -> None:
        self._cluster = cluster

    def allows(
        self, origin: Origin, operation: Operation, resource_type: ResourceType, name: str, **_: Any
    ) -> bool:
        return self._cluster if name == CLUSTER else name == "visible"

    def operations(self, origin: Origin, resource_type: ResourceType, name: str) -> int:
        return 1 << Operation.DESCRIBE


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (ResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (ResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (ResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (ResourceType.TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_each_type_has_its_error_code(kind: ResourceType, code: ErrorCode) -> None:
    access.check(Visible(), CALL, Operation.READ, kind, "visible")
    with pytest.raises(ApiError) as refused:
        access.check(Visible(), CALL, Operation.READ, kind, "hidden")
    assert refused.value.code is code


def test_there_is_no_filter_without_an_authorizer() -> None:
    assert access.name_filter(Authorization(), CALL, Operation.READ, ResourceType.TOPIC) is None
    visible = access.name_filter(Visible(), CALL, Operation.READ, ResourceType.TOPIC)
    assert visible is not None
    assert [visible("visible"), visible("hidden")] == [True, False]


def test_operations_on_the_cluster_are_hidden_from_clients_that_may_not_describe_it() -> None:
    assert access.cluster_operations(Visible(cluster=False), CALL) == 0
    assert access.cluster_operations(Visible(cluster=True), CALL) == 1 << Operation.DESCRIBE


@pytest.mark.parametrize(
    ("key", "by_id", "denied"),
    [
        (b"visible", False, False),
        (b"hidden", False, True),
        (b"absent", False, True),
        (b"\xff", False, True),
        (ID.bytes, True, True),
        (uuid.UUID(int=8).bytes, True, False),
    ],
)
def test_the_error_of_a_missing_partition_hides_whether_its_topic_exists(
    key: bytes, by_id: bool, denied: bool
) -> None:
    expected = pytest.raises(ApiError, match="right WRITE on the topic") if denied else nullcontext()
    with expected:
        access.check_missing(Visible(), CALL, Operation.WRITE, IMAGE, key, by_id=by_id)
