"""Settings of topics, brokers and groups: read and changed through the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from ottla.admin.session import Session, check
from ottla.base.errors import ErrorCode
from ottla.client.raw import UnknownTopic
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_SOURCES = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "file",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
_DEFAULT = 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


class Resource(IntEnum):
    """Types of resources that have settings."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


@dataclass(frozen=True)
class ConfigEntry:
    """One setting and the level at which its value is set."""

    name: str
    value: str | None
    source: str
    """topic, broker, cluster, file, default or group."""
    read_only: bool
    sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        return self.source == _SOURCES[_DEFAULT]


def configs(session: Session, name: str, *, kind: Resource = Resource.TOPIC) -> list[ConfigEntry]:
    """All settings of a resource, ordered by name. Raise UnknownTopic or Refused."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_documentation=True)
    what = f"reading the settings of {kind.name.lower()} {name}"

    def attempt() -> list[ConfigEntry]:
        response = _send(session, kind, name, request)
        (result,) = response.results
        _check(what, result.error_code, result.error_message)
        entries = [
            ConfigEntry(
                one.name,
                one.value,
                _SOURCES.get(one.config_source, "unknown"),
                one.read_only,
                one.is_sensitive,
                one.documentation or None,
            )
            for one in result.configs
        ]
        return sorted(entries, key=lambda each: each.name)

    return session.retrying(what, attempt)


def _send(
    session: Session, kind: Resource, name: str, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Only a broker itself knows its settings; the others are known to all brokers."""
    if kind is not Resource.BROKER or not name:
        return session.request(request, DescribeConfigsResponse)
    session.nodes()
    return session.cluster.connection(int(name)).request(request, DescribeConfigsResponse)


def alter_configs(
    session: Session,
    name: str,
    *,
    assign: Mapping[str, str] | None = None,
    delete: Iterable[str] = (),
    append: Mapping[str, str] | None = None,
    subtract: Mapping[str, str] | None = None,
    kind: Resource = Resource.TOPIC,
    validate_only: bool = False,
) -> None:
    """Change settings of a resource; all or none are changed. Raise UnknownTopic or Refused."""
    changes = [
        AlterableConfig(name=key, config_operation=operation, value=value)
        for operation, values in (
            (_SET, assign or {}),
            (_DELETE, dict.fromkeys(delete)),
            (_APPEND, append or {}),
            (_SUBTRACT, subtract or {}),
        )
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    what = f"changing the settings of {kind.name.lower()} {name}"

    def attempt() -> None:
        for each in session.request(request, IncrementalAlterConfigsResponse).responses:
            _check(what, each.error_code, each.error_message)

    session.retrying(what, attempt)


def _check(what: str, code: int, message: str | None) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise UnknownTopic(what, code, "it does not exist")
    check(what, code, message)
