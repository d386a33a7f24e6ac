"""The same requests to Apache Kafka and to Ottla, in every version: the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers import KafkaPeer
from ottla.testing.broker_process import BrokerProcess
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from tests.compat.requests import BROKER, ROWS
from tests.compat.twins import Twin, prepare

pytestmark = pytest.mark.compat

OWN_DEFAULTS = {
    "log.dir",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "queued.max.request.bytes",
}
"""Limits that are on by default with us, and where data go when nobody says."""

Twins = tuple[Twin, Twin]


@pytest.fixture(scope="module")
def twins(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    folder: Path = tmp_path_factory.mktemp("twins")
    settings = {"log.flush.interval.messages": "9223372036854775807", "node.id": "1"}
    with KafkaPeer(folder / "kafka", settings) as kafka, BrokerProcess(folder / "ottla", settings) as ottla:
        both = Twin("Kafka", kafka.bootstrap), Twin("Ottla", ottla.bootstrap)
        for twin in both:
            prepare(twin)
        yield both


@pytest.mark.parametrize(("name", "version"), ROWS, ids=str)
def test_same_answer(twins: Twins, name: str, version: int) -> None:
    answers = []
    for twin in twins:
        twin.version = version
        answer = ROWS[name, version](twin)
        answers.append([twin.plain(part) for part in (answer if isinstance(answer, list) else [answer])])
    kafka, ottla = answers
    assert ottla == kafka


def test_every_version_that_ottla_offers_is_what_kafka_offers(twins: Twins) -> None:
    offered = []
    for twin in twins:
        request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        answer = twin.ask(request, ApiVersionsResponse, 4)
        offered.append(({key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}, answer))
    (kafka, kafka_answer), (ottla, ottla_answer) = offered
    assert ottla == {key: kafka[key] for key in ottla}
    features = [
        (
            {f.name: (f.min_version, f.max_version) for f in answer.supported_features},
            {f.name: f.max_version_level for f in answer.finalized_features},
        )
        for answer in (kafka_answer, ottla_answer)
    ]
    assert features[1] == features[0]


def test_broker_settings_have_kafkas_names_types_and_defaults(twins: Twins) -> None:
    """Values that a node was given, and the one default of ours, aside."""
    described = []
    for twin in twins:
        resource = DescribeConfigsResource(resource_type=BROKER, resource_name="1", configuration_keys=None)
        answer = twin.ask(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse, 4)
        (result,) = answer.results
        described.append({config.name: config for config in result.configs})
    kafka, ottla = described
    assert set(kafka) - set(ottla) == set(), "Kafka knows these settings"
    assert set(ottla) - set(kafka) == set(), "Kafka does not know these settings"
    different = {
        name: (getattr(kafka[name], part), getattr(ottla[name], part))
        for name in kafka
        for part in ("config_type", "read_only", "is_sensitive")
        if getattr(kafka[name], part) != getattr(ottla[name], part)
    }
    assert different == {}
    defaults = {
        name: (kafka[name].value, ottla[name].value)
        for name in kafka
        if name not in OWN_DEFAULTS
        and kafka[name].config_source == ottla[name].config_source == 5
        and kafka[name].value != ottla[name].value
    }
    assert defaults == {}
