"""Rules for broker settings that are changed while the broker runs.

A refusal is INVALID_REQUEST, as in Kafka. Unknown names are allowed, because plugins define their own. A setting for
protection that this release does not have is refused, as at the start.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ottla.base.errors import ApiError, ErrorCode
from ottla.config.key import ConfigKey, ConfigRefused, Scope, Value, parse
from ottla.config.keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS
from ottla.config.resolve import BrokerLayers, Texts, listener_setting

# Kafka opens and closes listeners, and changes their mechanisms and logins, at run time; Ottla needs a restart.
_RESTART_NEEDED = frozenset(
    {
        "listeners",
        "listener.security.protocol.map",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.mechanism.inter.broker.protocol",
    }
)
# Stores are replaced for one listener, as in Kafka.
_PER_LISTENER = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)


def check_dynamic(
    configs: Texts, changed: Collection[str], layers: BrokerLayers, *, for_all_brokers: bool
) -> None:
    """Raise INVALID_REQUEST unless the names `changed` of `configs` may be set at run time."""
    _check_relations(check_definitions(configs, changed, for_all_brokers=for_all_brokers), layers)


def check_definitions(configs: Texts, changed: Collection[str], *, for_all_brokers: bool) -> dict[str, Value]:
    """Check each setting by its definition alone, whatever the settings of the broker are; returns the values."""
    values: dict[str, Value] = {}
    for name in changed:
        text = configs.get(name)
        base = listener_setting(name)
        key = DYNAMIC_ONLY_KEYS.get(name) or BROKER_KEYS.get(base or name)
        if text is None or key is None:
            continue
        _check_scope(name, key, per_listener=base is not None, for_all_brokers=for_all_brokers)
        value = _value(name, key, text)
        if base is None:
            values[name] = value
    if values.get("log.cleaner.threads") == 0:
        raise _refused("log.cleaner.threads=0; allowed at run time: at least 1")
    return values


def _check_scope(name: str, key: ConfigKey, *, per_listener: bool, for_all_brokers: bool) -> None:
    if key.scope is Scope.READ_ONLY or key.name in _RESTART_NEEDED:
        raise _refused(f"{name} can only be changed by a restart of the broker")
    if name in _PER_LISTENER:
        raise _refused(f"{name} can only be changed for a listener; use listener.name.<listener>.{name}")
    if for_all_brokers and key.scope is Scope.PER_BROKER and not per_listener:
        raise _refused(f"{name} is a setting of a single broker; name the broker")


def _value(name: str, key: ConfigKey, text: str) -> Value:
    try:
        value = parse(key, text)
    except ConfigRefused as error:
        raise _refused(str(error)) from error
    if key.protective and (key.default is None or value != parse(key, key.default)):
        raise _refused(
            f"{name}: this release does not implement this protection; only the default is allowed"
        )
    return value


def _check_relations(values: dict[str, Value], layers: BrokerLayers) -> None:
    overrides = values.get("max.connections.per.ip.overrides")
    if isinstance(overrides, str):
        try:
            parse_connection_overrides(overrides)
        except ConfigRefused as error:
            raise _refused(str(error)) from error
    if values.get("max.connections.per.ip") == 0:
        name = "max.connections.per.ip.overrides"
        if not values.get(name, layers.value(name)):
            raise _refused(f"max.connections.per.ip=0 allows no connections unless {name} is set")
    cordoned = values.get("cordoned.log.dirs")
    if isinstance(cordoned, list) and cordoned != ["*"]:
        directories = layers.value("log.dirs") or layers.value("log.dir")
        unknown = [each for each in cordoned if not isinstance(directories, list) or each not in directories]
        if unknown:
            raise _refused(f"cordoned.log.dirs: {', '.join(unknown)} not in log.dirs")


def parse_connection_overrides(text: str) -> dict[str, int]:
    """Parse `host:count,…`. The count is after the last colon, so IPv6 addresses need no brackets."""
    table = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = entry.rpartition(":")
        if not colon or not host or not re.fullmatch(r"[0-9]{1,9}", count.strip()):
            name = "max.connections.per.ip.overrides"
            raise ConfigRefused(name, f"{name}: entry {entry!r}; allowed: entries of the form host:count")
        table[host.strip()] = int(count)
    return table


def _refused(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, text)
