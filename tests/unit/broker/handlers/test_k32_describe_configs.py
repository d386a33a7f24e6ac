"""DescribeConfigs: resources, refusals and versions; the answers are those seen on Apache Kafka 4.3.1."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import parse_uuid
from ottla.broker.authorization import Authorization
from ottla.broker.dependencies import MetadataCache
from ottla.broker.handlers import k32_describe_configs
from ottla.broker.handlers.k32_describe_configs import DescribeConfigs
from ottla.broker.registry import Call
from ottla.broker.repetitions import REPETITIONS_MAX
from ottla.config import BrokerConfig
from ottla.metadata.image import MetadataImage, TopicImage, TopicsImage
from ottla.wire.codec import decode, encode
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def _handler() -> DescribeConfigs:
    topic = TopicImage("t1", parse_uuid("AAAAAAAAAAAAAAAAAAAACQ"), {})
    image = MetadataImage(
        topics=TopicsImage(by_name={"t1": topic}, by_id={topic.topic_id: topic}),
        configs={
            (TOPIC, "t1"): {"retention.ms": "12345"},
            (BROKER, ""): {"min.insync.replicas": "1"},
            (BROKER, "1"): {"log.retention.ms": "777777"},
            (BROKER, "2"): {"log.retention.ms": "1"},
            (GROUP, "g1"): {"share.isolation.level": "read_committed"},
        },
    )
    return DescribeConfigs(Authorization(), 1, BrokerConfig({"node.id": "1"}), MetadataCache(image))


def _handle(request: DescribeConfigsRequest, version: int = 4) -> DescribeConfigsResponse:
    return asyncio.run(_handler().handle(request, cast(Call, SimpleNamespace(api_version=version))))


def _describe(kind: int, name: str, keys: list[str] | None = None, **asked: bool) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    answer = _handle(DescribeConfigsRequest(resources=[resource], **asked))
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


@pytest.mark.parametrize(
    ("kind", "name", "count"),
    [
        (TOPIC, "t1", 33),
        (BROKER, "1", 340),
        (BROKER, "", 1),
        (LOGGER, "1", 0),
        (METRICS, "new", 3),
        (GROUP, "g1", 17),
    ],
)
def test_every_setting_is_listed(kind: int, name: str, count: int) -> None:
    for keys in (None, []):
        result = _describe(kind, name, keys)
        assert (result.error_code, result.error_message, len(result.configs)) == (0, "", count)


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "nope", 3),
        (TOPIC, "a/b", 17),
        (TOPIC, "", 17),
        (BROKER, "7", 42),
        (BROKER, "x", 42),
        (LOGGER, "", 42),
        (LOGGER, "2", 42),
        (METRICS, "", 42),
        (GROUP, "", 42),
        (3, "a", 42),
        (0, "a", 42),
    ],
)
def test_refused(kind: int, name: str, code: int) -> None:
    result = _describe(kind, name)
    assert (result.error_code, result.configs) == (code, [])


def test_one_resource_of_an_unknown_type_makes_the_request_invalid() -> None:
    resources = [DescribeConfigsResource(TOPIC, "t1", None), DescribeConfigsResource(99, "x", None)]
    answer = _handle(DescribeConfigsRequest(resources=resources))
    assert [(r.error_code, r.resource_type, len(r.configs)) for r in answer.results] == [
        (42, 2, 0),
        (42, 99, 0),
    ]


def test_synonyms_and_documentation_are_included_on_request() -> None:
    (plain,) = _describe(TOPIC, "t1", ["retention.ms", "no.such"]).configs
    assert (plain.value, plain.config_source, plain.config_type) == ("12345", 1, 5)
    assert (plain.synonyms, plain.documentation) == ([], None)
    (full,) = _describe(
        TOPIC, "t1", ["retention.ms"], include_synonyms=True, include_documentation=True
    ).configs
    assert [(s.name, s.value, s.source) for s in full.synonyms] == [
        ("retention.ms", "12345", 1),
        ("log.retention.ms", "777777", 2),
        ("log.retention.hours", "168", 5),
    ]
    assert full.documentation


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_carries_the_response(version: int) -> None:
    resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1")
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=True, include_documentation=version > 2
    )
    answer = _handle(request, version)
    back = decode(DescribeConfigsResponse, encode(answer, version), version)
    assert len(back.results[0].configs) == 340
    assert (back.results[0].configs[0].config_type != 0) == (version >= 3)


def test_a_resource_that_is_repeated_too_often_is_refused() -> None:
    """The settings of a broker have hundreds of kilobytes: a request can name it thousands of times."""
    broker = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
    response = _handle(DescribeConfigsRequest(resources=[broker] * 2000))
    assert [len(result.configs) for result in response.results] == [340] * REPETITIONS_MAX + [0] * (
        2000 - REPETITIONS_MAX
    )
    assert {result.error_code for result in response.results[REPETITIONS_MAX:]} == {ErrorCode.INVALID_REQUEST}


def test_the_number_of_settings_in_a_response_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any name is that of a group, and has the settings of a group."""
    monkeypatch.setattr(k32_describe_configs, "_SETTINGS_MAX", 30)
    groups = [
        DescribeConfigsResource(resource_type=GROUP, resource_name=f"g{number}", configuration_keys=None)
        for number in range(4)
    ]
    response = _handle(DescribeConfigsRequest(resources=groups))
    assert [len(result.configs) for result in response.results] == [17, 17, 0, 0]
    assert [result.error_code for result in response.results] == [0, 0, 42, 42]
