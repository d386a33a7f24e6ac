"""TLS of a node: the configuration of its listeners, and of its connections to other nodes.

Loaded at the start; then the start fails with an error that names the setting. After a change of the broker's settings,
also one that repeats a value, all stores are read again beside the event loop. What differs becomes effective for new
connections. A store that cannot be used is reported, and the configuration before stays effective.

The modules that read stores and certificates are imported if a listener or a client uses TLS.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ottla.base.clock import Clock
from ottla.base.errors import LocalError
from ottla.base.executor import Executor
from ottla.base.promise import Promise
from ottla.broker.net.tls_listeners import TlsListeners
from ottla.config.listener_settings import listener_text, prefixed_text
from ottla.config.resolve import BrokerLayers
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.security.protocol import SecurityProtocol

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.publisher import MetadataPublisher
    from ottla.node.settings.config import NodeConfig
    from ottla.security.tls.endpoints import ClientTls, Loaded, ServerTls
    from ottla.security.tls.settings import TlsSettings
    from ottla.security.tls.stream import TlsStream


class NodeTls:
    """The TLS configurations of one node. Concurrency: the event loop, except `_load_all`."""

    def __init__(
        self, config: NodeConfig, executor: Executor, clock: Clock, log: FilteringBoundLogger
    ) -> None:
        self._config = config
        self._executor = executor
        self._clock = clock
        self._log = log
        self._loading = False
        self._changed_meanwhile = False
        self._layers = BrokerLayers(config.broker)
        self._protocols = {
            each.name: each.protocol
            for each in (*config.listeners, *config.controller_listeners)
            if each.protocol.uses_tls
        }
        self._loaded: dict[tuple[str, bool], Loaded] = {}
        self._servers: dict[str, ServerTls] = {}
        self._clients: dict[str, ClientTls] = {}
        if self._protocols or config.controller_protocol.uses_tls:
            self._load_first()

    def _load_first(self) -> None:
        from ottla.security.tls.endpoints import ClientTls, ServerTls

        loaded = self._load_all(self._layers, {})
        self._loaded = loaded
        self._servers = {name: ServerTls(loaded[name, True]) for name in self._protocols}
        self._clients = {name: ClientTls(each) for (name, server), each in loaded.items() if not server}
        self._warn(loaded)

    def listeners(self) -> TlsListeners | None:
        """The configuration of listeners for one event loop; None if no listener uses TLS."""
        return TlsListeners(self._servers, self._executor) if self._servers else None

    @property
    def brokers(self) -> ClientTls | None:
        """For connections to other brokers; None if they do not use TLS."""
        return self._clients.get(self._config.inter_broker_listener)

    @property
    def controllers(self) -> ClientTls | None:
        """For connections to controllers; None if they do not use TLS."""
        return self._clients.get(self._config.controller_listener)

    def unchecked_clients(self) -> UncheckedClients:
        """For connections that only show whether a broker runs."""
        return UncheckedClients(
            lambda: _settings(self._layers, self._config.inter_broker_listener, SecurityProtocol.SSL)
        )

    def follow(self, publisher: MetadataPublisher) -> None:
        """Apply the settings that are stored in the metadata, and from now on each change of them."""
        if not self._loaded:
            return
        self._layers = self._with(publisher.image)
        if self._layers.dynamic_default or self._layers.dynamic_broker:
            try:
                self._apply(self._load_all(self._layers, {}))
            except LocalError as error:
                self._log.error("stored TLS settings are ignored", reason=str(error))
        publisher.add_listener(self.changed)

    def changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Load again if settings of this broker or of all brokers were written."""
        node = str(self._config.node_id)
        kinds = {(int(kind), name) for kind, name in delta.changed_configs}
        if kinds & {(int(ResourceType.BROKER), ""), (int(ResourceType.BROKER), node)}:
            self._layers = self._with(image)
            self._reload()

    def check(self, own: Mapping[str, str]) -> Promise[None]:
        """Check beside the event loop whether these dynamic settings of this broker can become effective.

        The promise fails with LocalError if not.
        """
        layers = BrokerLayers(self._config.broker, self._layers.dynamic_default, own)
        before = self._loaded
        checked: Promise[None] = Promise()

        def done(error: BaseException | None) -> None:
            if error is None:
                checked.keep(None)
            else:
                checked.fail(error)

        self._executor.submit(lambda: _ignore(self._load_all(layers, before)), done)
        return checked

    def _with(self, image: MetadataImage) -> BrokerLayers:
        return BrokerLayers(
            self._config.broker,
            image.config(ResourceType.BROKER, ""),
            image.config(ResourceType.BROKER, str(self._config.node_id)),
        )

    def _reload(self) -> None:
        if self._loading:
            self._changed_meanwhile = True
            return
        self._loading = True
        layers, before = self._layers, self._loaded
        loaded: dict[tuple[str, bool], Loaded] = {}

        def work() -> None:
            loaded.update(self._load_all(layers, before))

        self._executor.submit(work, lambda error: self._reloaded(loaded, error))

    def _reloaded(self, loaded: dict[tuple[str, bool], Loaded], error: BaseException | None) -> None:
        self._loading = False
        if isinstance(error, LocalError):
            self._log.error(
                "TLS is not reloaded, the configuration before stays effective", reason=str(error)
            )
        elif error is not None:
            raise error
        else:
            self._apply(loaded)
        if self._changed_meanwhile:
            self._changed_meanwhile = False
            self._reload()

    def _apply(self, loaded: dict[tuple[str, bool], Loaded]) -> None:
        changed = {key: each for key, each in loaded.items() if each != self._loaded[key]}
        for (name, server), each in changed.items():
            (self._servers if server else self._clients)[name].replace(each)
            if server:
                subject = "" if each.certificate is None else each.certificate.subject
                self._log.info("TLS is reloaded", listener=name, certificate=subject)
        self._loaded = {**self._loaded, **changed}
        self._warn(changed)

    def _load_all(
        self, layers: BrokerLayers, before: dict[tuple[str, bool], Loaded]
    ) -> dict[tuple[str, bool], Loaded]:
        """The configurations by the name of the listener and whether they are of the server side; any thread."""
        from ottla.security.tls.endpoints import (
            check_own_clients,
            check_replacement,
            load_client,
            load_server,
        )

        config = self._config
        loaded: dict[tuple[str, bool], Loaded] = {}
        for name, protocol in self._protocols.items():
            loaded[name, True] = _named(name, load_server, _settings(layers, name, protocol))
        clients = {config.inter_broker_listener: self._protocols.get(config.inter_broker_listener)}
        clients[config.controller_listener] = config.controller_protocol
        for name, found in clients.items():
            if found is not None and found.uses_tls:
                loaded[name, False] = _named(name, load_client, _settings(layers, name, found))
                if (name, True) in loaded:
                    check_own_clients(loaded[name, True], loaded[name, False])
        for key, each in before.items():
            check_replacement(
                each,
                loaded[key],
                allow_dn_changes=config.broker.bool("ssl.allow.dn.changes"),
                allow_san_changes=config.broker.bool("ssl.allow.san.changes"),
            )
        return loaded

    def _warn(self, loaded: dict[tuple[str, bool], Loaded]) -> None:
        from ottla.security.tls.endpoints import expiry_warning

        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        for (name, server), each in loaded.items():
            warning = expiry_warning(each, now) if server else None
            if warning is not None:
                self._log.warning(warning, listener=name)


class UncheckedClients:
    """Opens TLS on connections without requests: any certificate is accepted, and nothing secret is sent."""

    def __init__(self, settings: Callable[[], TlsSettings]) -> None:
        self._settings = settings
        self._client: ClientTls | None = None

    def new_stream(self, host: str) -> TlsStream:
        if self._client is None:
            from ottla.security.tls.endpoints import ClientTls, load_client

            unchecked = dataclasses.replace(self._settings(), check_host=False, check_certificate=False)
            self._client = ClientTls(load_client(unchecked))
        return self._client.new_stream(host)


def _ignore(_: object) -> None:
    """Only whether it was loaded matters."""


def _named(name: str, load: Callable[[TlsSettings], Loaded], settings: TlsSettings) -> Loaded:
    try:
        return load(settings)
    except LocalError as error:
        raise LocalError(f"listener {name}: {error}") from error.__cause__


def _settings(layers: BrokerLayers, listener: str, protocol: SecurityProtocol) -> TlsSettings:
    from ottla.security.tls.settings import read_settings

    def lookup(name: str) -> str | None:
        if name == "ssl.client.auth" and protocol.uses_sasl:
            # As in Kafka: the setting of the broker is for listeners whose clients authenticate by certificate.
            return prefixed_text(layers, listener, name)
        return listener_text(layers, listener, name)

    return read_settings(lookup)
