"""Creation of the topics that a pipeline declares and that do not exist yet.

A topic that exists is not changed, even if its settings differ from the declaration. The client settings are the same
as for the connector `ottla`, so security settings can have the names of Java's client or of librdkafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.base.errors import LocalError
from ottla.client.raw import ClientError, ClientSettings, Cluster
from ottla.client.raw.admin import ensure_topic
from ottla.pipelines.declare import Topic

OnStep = Callable[[str], None]
TIMEOUT_MS: Final = 30_000
_BROKERS_DEFAULT: Final = -1
_CLIENT: Final = "kafka."


class SettingsRejected(LocalError):
    """The client of Ottla does not support the given settings; Java's client may support them."""


def create_missing(
    bootstrap: str, topics: Iterable[Topic], options: Mapping[str, str], on_step: OnStep | None = None
) -> dict[str, int]:
    """Create the topics that do not exist; return the number of partitions of each topic.

    `on_step` gets a line if no broker can be reached and the client tries again. Raises `LocalError` if the cluster
    does not respond or returns an error.
    """
    wanted = {topic.name: topic for topic in topics}
    with _cluster(bootstrap, options, on_step) as cluster:
        known = _known(cluster, bootstrap, wanted)
        missing = [topic for name, topic in wanted.items() if name not in known]
        for topic in missing:
            try:
                ensure_topic(cluster, topic.name, topic.partitions or _BROKERS_DEFAULT, topic.config)
            except ClientError as error:
                raise LocalError(f"cannot create topic {topic.name}: {error}") from error
        return _known(cluster, bootstrap, wanted) if missing else known


def partitions_of(
    bootstrap: str, names: Iterable[str], options: Mapping[str, str], on_step: OnStep | None = None
) -> dict[str, int]:
    """The number of partitions of each of the topics that exist; `on_step` as in `create_missing`."""
    with _cluster(bootstrap, options, on_step) as cluster:
        return _known(cluster, bootstrap, names)


def _known(cluster: Cluster, bootstrap: str, names: Iterable[str]) -> dict[str, int]:
    try:
        return {name: len(found.partitions) for name, found in cluster.topics(names).items()}
    except ClientError as error:
        raise LocalError(f"cannot read the metadata of the cluster at {bootstrap}: {error}") from error


def _cluster(bootstrap: str, options: Mapping[str, str], on_step: OnStep | None) -> Cluster:
    def waiting(text: str) -> None:
        if on_step is not None:
            on_step(f"No broker can be reached: {text}")

    return Cluster(client_settings(bootstrap, options), on_unreachable=waiting)


def connector_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a client as options of a connector."""
    return {f"{_CLIENT}{name}": value for name, value in settings.items()}


def client_settings(bootstrap: str, options: Mapping[str, str]) -> ClientSettings:
    """The settings of Ottla's client for the options of a connector; raises `SettingsRejected`."""
    given = {
        name.lower().removeprefix(_CLIENT): value
        for name, value in options.items()
        if name.lower().startswith(_CLIENT)
    }
    timeout = {"default.api.timeout.ms": str(TIMEOUT_MS)}
    try:
        return ClientSettings.from_options({**timeout, **given, "bootstrap.servers": bootstrap})
    except LocalError as error:
        raise SettingsRejected(str(error)) from error
