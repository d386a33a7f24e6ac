"""ListConfigResources: which resources are listed in which version."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from ottla.base.ids import ZERO_UUID, parse_uuid
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers.k74_list_config_resources import ListConfigResources
from ottla.broker.registry import Call
from ottla.metadata.image import BrokerImage, MetadataImage, TopicImage, TopicsImage
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest

IMAGE = MetadataImage(
    brokers={1: BrokerImage(1, 1, ZERO_UUID)},
    topics=TopicsImage(by_name={"t1": TopicImage("t1", parse_uuid("AAAAAAAAAAAAAAAAAAAACQ"), {})}),
    configs={
        (16, "m1"): {"interval.ms": "1000"},
        (32, "g1"): {"share.isolation.level": "x"},
        (4, ""): {"a": "b"},
    },
)


def _list(version: int, *kinds: int) -> tuple[int, list[tuple[int, str]]]:
    call = cast(Call, SimpleNamespace(api_version=version))
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    answer = ListConfigResources(MetadataCache(IMAGE)).handle(request, call)
    return answer.error_code, [(r.resource_type, r.resource_name) for r in answer.config_resources]


def test_version_0_lists_client_metrics_subscriptions_alone() -> None:
    assert _list(0) == (0, [(16, "m1")])


def test_no_types_means_all() -> None:
    assert _list(1) == (0, [(2, "t1"), (4, "1"), (8, "1"), (16, "m1"), (32, "g1")])


def test_types_choose() -> None:
    assert _list(1, 2, 32) == (0, [(2, "t1"), (32, "g1")])


def test_a_type_that_cannot_be_listed() -> None:
    for kind in (0, 1, 99):
        assert _list(1, 2, kind) == (35, [])
