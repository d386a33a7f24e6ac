"""The table of rights on Apache Kafka and on Ottla, both with an authorizer: the responses are compared."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import pytest

from bench.clusters import KafkaProcess
from bench.peers import ONE_NODE
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from ottla.security.resources import Permission
from tests.compat.differential.comparison import unequal
from tests.compat.differential.player import Player
from tests.support.authorized_broker import PRINCIPALS, AuthorizedBroker, settings
from tests.support.raw import CLOSED, Address
from tests.support.rights import GROUP, ROWS, TOPIC, TXN, Right, Row

pytestmark = pytest.mark.compat

DELIBERATE: dict[str, str] = {
    "broker-find_coordinator-v6-share": "share groups are not supported",
    "broker-init_producer_id-v6": "Kafka closes the connection: the version is not stable",
    "broker-push_telemetry": "Kafka refuses it without a reporter of metrics",
    "controller-alter_partition": "the epoch of the broker is checked also for a request without topics",
    "controller-envelope": "an Envelope without a principal has the principal of its sender",
    "controller-describe_delegation_token": "controllers of Kafka list the API and fail (-1)",
    "controller-describe_user_scram_credentials": "controllers of Kafka list the API and fail (-1)",
    "controller-controller_registration": "null in place of an empty text",
}
"""Rows that differ for clients with the right, by the beginning of their titles, with the reason."""

_WITHOUT_RESPONSES_OF_KAFKA = (
    *("broker-init_producer_id-v6", "broker-push_telemetry"),
    *("controller-describe_delegation_token", "controller-describe_user_scram_credentials"),
)


@pytest.fixture(scope="module")
def both(
    kafka_jars: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[AuthorizedBroker, ...]]:
    home = tmp_path_factory.mktemp("rights")
    ports = cast(list[Any], [tuple(free_ports(4)) for _ in range(2)])
    with (
        KafkaProcess(home / "kafka", ONE_NODE | settings(*ports[0]), port=ports[0][1]),
        BrokerProcess(home / "ottla", ONE_NODE | settings(*ports[1]), port=ports[1][0]),
    ):
        brokers = tuple(AuthorizedBroker(each) for each in ports)
        for broker in brokers:
            broker.prepare()
        yield brokers


def variants(row: Row, principal: str) -> list[tuple[tuple[Right, ...], Permission]]:
    """The entries of the principal with which the row is played."""
    if principal == "denied":
        return [((*row.needs, *row.alternatives), Permission.DENY)]
    if principal == "allowed":
        partly = [row.needs[:count] for count in range(1, len(row.needs) + 1)]
        others = [(*row.needs[:-1], each) for each in row.alternatives]
        return [(rights, Permission.ALLOW) for rights in (*partly, *others)]
    return [((), Permission.ALLOW)]


def played(broker: AuthorizedBroker, row: Row, principal: str) -> list[Any]:
    """The responses as plain values."""
    found = []
    player = Player(Address("127.0.0.1", 0), "", row.version)
    player.names[broker.world.topic_id] = TOPIC
    for rights, permission in variants(row, principal):
        with broker.entries(rights, principal, permission), broker.connect(principal, row.listener) as client:
            response = client.ask(row.request(broker.world), row.version, row.response_class)
        found.append(repr(response) if response is CLOSED else _own(player.plain(response)))
    return found


def _own(value: Any) -> Any:
    """Without what other rows have created, and without values that two brokers do not share."""
    if isinstance(value, dict):
        return {key: _own(inner) for key, inner in value.items() if key not in _DIFFER}
    if isinstance(value, list):
        names = ("name", "group_id", "transactional_id")
        kept = [each for each in value if not isinstance(each, dict) or _is_own(each, names)]
        return [_own(each) for each in kept]
    return value


_DIFFER = frozenset({
    "port", "host", "leader_epoch", "partition_size", "usable_bytes", "total_bytes", "log_dir", "high_watermark",
    "last_stable_offset", "base_offset", "records", "offset", "end_offset", "controller_id", "node_id", "member_id",
    "api_keys", "supported_features", "finalized_features", "subscription_id", "client_instance_id",
    "accepted_compression_types", "telemetry_max_bytes", "configs", "nodes", "expiry_timestamp_ms", "hmac",
    "token_id", "issue_timestamp", "expiry_timestamp", "max_timestamp", "log_end_offset", "replica_directory_id",
    "issue_timestamp_ms", "max_timestamp_ms", "config_resources", "log_start_offset", "throttle_time_ms",
})  # fmt: skip


def _is_own(value: dict[str, Any], names: tuple[str, ...]) -> bool:
    named = [value[name] for name in names if name in value]
    return (
        not named
        or named[0] is None
        or named[0] in (TOPIC, GROUP, TXN, "absent", "rights-new", "rights-none", "")
    )


@pytest.mark.parametrize("row", ROWS, ids=[row.title for row in ROWS])
def test_a_row_is_answered_as_by_kafka(both: tuple[AuthorizedBroker, ...], row: Row) -> None:
    differences = []
    for principal in PRINCIPALS:
        with ThreadPoolExecutor(2) as pool:
            kafka, ottla = pool.map(partial(played, row=row, principal=principal), both)
        differences += [(principal, *each) for each in unequal(kafka, ottla, "")]
    if any(row.title.startswith(title) for title in DELIBERATE):
        differences = [each for each in differences if each[0] not in ("allowed", "admin")]
    if row.title.startswith(_WITHOUT_RESPONSES_OF_KAFKA):
        return
    assert not differences, "\n".join(map(str, differences))
