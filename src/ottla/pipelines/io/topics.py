"""Making the topics that a pipeline declares and the cluster does not have yet.

A topic that exists is left as it is, whatever its settings: changing it is an operator's decision. The cluster is
reached as our connector reaches it, so security settings may have Java's names or librdkafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.base.errors import LocalError
from ottla.client.raw import ClientError, ClientSettings, Cluster
from ottla.client.raw.admin import ensure_topic
from ottla.pipelines.declare import Topic

PATIENCE_MS: Final = 30_000
_BROKERS_DEFAULT: Final = -1
_CLIENT: Final = "kafka."


class SettingsRefused(LocalError):
    """The cluster can't be reached as the options say, by us; Java may be able to."""


def create_missing(bootstrap: str, topics: Iterable[Topic], options: Mapping[str, str]) -> dict[str, int]:
    """How many partitions each topic has, after making those that were not there.

    Raises `LocalError` when the cluster does not answer or refuses.
    """
    wanted = {topic.name: topic for topic in topics}
    with _cluster(bootstrap, options) as cluster:
        known = _known(cluster, bootstrap, wanted)
        missing = [topic for name, topic in wanted.items() if name not in known]
        for topic in missing:
            try:
                ensure_topic(cluster, topic.name, topic.partitions or _BROKERS_DEFAULT, topic.config)
            except ClientError as error:
                raise LocalError(f"topic {topic.name} can't be made: {error}") from error
        return _known(cluster, bootstrap, wanted) if missing else known


def partitions_of(bootstrap: str, names: Iterable[str], options: Mapping[str, str]) -> dict[str, int]:
    """How many partitions each of these topics has; those that do not exist are left out."""
    with _cluster(bootstrap, options) as cluster:
        return _known(cluster, bootstrap, names)


def _known(cluster: Cluster, bootstrap: str, names: Iterable[str]) -> dict[str, int]:
    try:
        return {name: len(found.partitions) for name, found in cluster.topics(names).items()}
    except ClientError as error:
        raise LocalError(f"no answer of use from {bootstrap}: {error}") from error


def _cluster(bootstrap: str, options: Mapping[str, str]) -> Cluster:
    given = {
        name.lower().removeprefix(_CLIENT): value
        for name, value in options.items()
        if name.lower().startswith(_CLIENT)
    }
    patience = {"default.api.timeout.ms": str(PATIENCE_MS)}
    try:
        settings = ClientSettings.from_options({**patience, **given, "bootstrap.servers": bootstrap})
    except LocalError as error:
        raise SettingsRefused(str(error)) from error
    return Cluster(settings)
