"""Broker settings made at run time: what Kafka 4.3.1 refuses is refused, and protection is not pretended."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.config import BrokerConfig, BrokerLayers, ConfigRefused
from ottla.config.dynamic_rules import check_dynamic, parse_connection_overrides

LAYERS = BrokerLayers(BrokerConfig({"max.connections.per.ip.overrides": ""}))


def _check(name: str, value: str, *, for_all: bool = False) -> None:
    check_dynamic({name: value}, [name], LAYERS, for_all_brokers=for_all)


@pytest.mark.parametrize(
    ("name", "value", "for_all"),
    [
        ("log.retention.ms", "777777", False),
        ("log.retention.ms", "-7", False),
        ("log.roll.ms", "99999", True),
        ("foo.bar", "anything", True),
        ("leader.replication.throttled.rate", "100", True),
        ("listener.name.plaintext.max.connections", "50", True),
        ("unclean.leader.election.enable", "true", False),
        ("ssl.client.auth", "none", False),
        ("ssl.client.auth", "required", False),
        ("listener.name.plaintext.ssl.keystore.password", "secret", False),
        ("cordoned.log.dirs", "ottla-data", False),
        ("cordoned.log.dirs", "*", False),
        ("sasl.kerberos.min.time.before.relogin", "58000", False),
        ("sasl.login.refresh.min.period.seconds", "30", False),
    ],
)
def test_accepted(name: str, value: str, *, for_all: bool) -> None:
    _check(name, value, for_all=for_all)


@pytest.mark.parametrize(
    ("name", "value", "for_all"),
    [
        ("num.partitions", "4", False),
        ("node.id", "1", False),
        ("log.retention.ms", "x", False),
        ("log.segment.bytes", "5", True),
        ("listeners", "PLAINTEXT://:1", True),
        ("listeners", "PLAINTEXT://:1", False),
        ("cordoned.log.dirs", "/x", True),
        ("cordoned.log.dirs", "/x", False),
        ("compression.type", "zip", False),
        ("max.connections", "-1", True),
        ("max.connections.per.ip.overrides", "abc", True),
        ("max.connections.per.ip.overrides", "a:x", True),
        ("max.connections.per.ip", "0", True),
        ("log.cleaner.threads", "0", True),
        ("leader.replication.throttled.rate", "-1", False),
        ("ssl.client.auth", "perhaps", False),
        ("ssl.keystore.location", "/etc/file", False),
        ("principal.builder.class", "x", False),
        ("sasl.kerberos.principal.to.local.rules", "RULE:[1:$1]", False),
        ("sasl.kerberos.service.name", "other", False),
        ("config.providers", "x", False),
        ("listener.name.sasl.plain.sasl.jaas.config", "secret", False),
    ],
)
def test_refused_as_an_invalid_request(name: str, value: str, *, for_all: bool) -> None:
    with pytest.raises(ApiError) as refused:
        _check(name, value, for_all=for_all)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert "secret" not in str(refused.value)


def test_only_what_changes_is_judged() -> None:
    stored = {"num.partitions": "4", "log.retention.ms": "5"}
    check_dynamic(stored, ["log.retention.ms"], LAYERS, for_all_brokers=True)
    check_dynamic({}, ["num.partitions"], LAYERS, for_all_brokers=True)


def test_connection_overrides_take_addresses_of_both_kinds() -> None:
    table = parse_connection_overrides(" 127.0.0.1:5, ::1:6,host:7,")
    assert table == {"127.0.0.1": 5, "::1": 6, "host": 7}
    with pytest.raises(ConfigRefused, match="host:count"):
        parse_connection_overrides("nothing")
