"""Apache Kafka and Ottla, both with an authorizer, get the same requests and are compared response by response."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.peers import ONE_NODE, KafkaPeer
from ottla.local.broker_process import BrokerProcess
from tests.compat.differential import acls
from tests.compat.differential.catalog import SCENARIOS, Scenario
from tests.compat.differential.comparator import Comparator
from tests.support.raw import Address

pytestmark = pytest.mark.compat

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
}
PLAYED = [each for each in SCENARIOS if each.play in (acls.acl_creations, acls.acl_filters)]


@pytest.fixture(scope="module")
def comparator(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Comparator]:
    home = tmp_path_factory.mktemp("authorizer")
    with (
        KafkaPeer(home / "kafka", AUTHORIZER) as kafka,
        BrokerProcess(home / "ottla", ONE_NODE | AUTHORIZER) as ottla,
    ):
        yield Comparator(Address.parse(kafka.bootstrap), Address.parse(ottla.bootstrap))


@pytest.mark.parametrize("scenario", PLAYED, ids=[each.title for each in PLAYED])
def test_entries_are_managed_as_by_kafka(scenario: Scenario, comparator: Comparator) -> None:
    left = comparator.unexplained(scenario)
    assert not left, "\n".join(map(str, left[:40]))
