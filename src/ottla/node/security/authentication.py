"""Creates what connections with SASL share: mechanisms with their credentials, delays, logins to other nodes.

The mechanisms are imported when a listener or a login uses them: without SASL they would only take memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from ottla.broker.net.authentication import SaslListener
from ottla.broker.net.authentication_failures import AuthenticationFailures
from ottla.metadata.image import MetadataImage
from ottla.security.sasl.exchange import OAUTHBEARER, PLAIN, ServerExchange
from ottla.security.scram_keys import MECHANISMS, ScramMechanism
from ottla.security.tokens import SECRET_KEY

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ottla.base.executor import Done, Executor, Work
    from ottla.config.broker import BrokerConfig
    from ottla.node.machine import Machine
    from ottla.node.settings.config import NodeConfig
    from ottla.security.sasl.kerberos.settings import KerberosListener
    from ottla.security.sasl.login import NodeLogin
    from ottla.security.sasl.oauth.settings import OauthSettings
    from ottla.security.sasl.scram import Find, ScramServer
    from ottla.security.sasl.settings import Credentials, ListenerSasl

_NONCE_BYTES: Final = 24


def sasl_listeners(
    config: NodeConfig, image: Callable[[], MetadataImage], machine: Machine, log: FilteringBoundLogger
) -> dict[str, SaslListener]:
    """The listeners with SASL by name; `image` returns the newest metadata of this node."""
    if not config.sasl.listeners:
        return {}
    delay_s = config.broker.int("connection.failed.authentication.delay.ms") / 1000
    failures = AuthenticationFailures(delay_s)
    return {
        name: SaslListener(
            mechanisms=_mechanisms(config.broker, listener, image, machine, log),
            reauthentication_ms=listener.reauthentication_ms,
            receive_bytes_max=listener.receive_bytes_max,
            failures=failures,
            clock=machine.clock,
            loop=asyncio.get_running_loop(),
            log=log,
        )
        for name, listener in config.sasl.listeners.items()
    }


def node_login(credentials: Credentials | None, machine: Machine) -> NodeLogin | None:
    """The login of this node to other nodes; None without one."""
    if credentials is None:
        return None
    import secrets

    from ottla.security.sasl.login import NodeLogin

    executor: Executor = machine.executor
    token = None
    if credentials.kerberos is not None:
        from ottla.security.sasl.kerberos.library import require_gssapi

        require_gssapi()
        executor = LoopExecutor(asyncio.get_running_loop())
    if credentials.tokens is not None:
        from ottla.security.sasl.oauth.endpoints import fetch_token
        from ottla.security.sasl.oauth.token_source import TokenSource

        executor = LoopExecutor(asyncio.get_running_loop())
        fetch_new = partial(fetch_token, credentials.tokens)
        token = TokenSource(fetch_new, lambda: machine.clock.now_ms() / 1000).get
    return NodeLogin(credentials, lambda: secrets.token_urlsafe(_NONCE_BYTES), executor, token)


class LoopExecutor:
    """The executor of the event loop, for requests to an identity provider or to a server of Kerberos.

    They must not delay requests to disks, nor logins of clients, which need disks and processors only.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def submit(self, work: Work, done: Done) -> None:
        ended = self._loop.run_in_executor(None, work)
        ended.add_done_callback(lambda future: done(future.exception()))


def _mechanisms(
    config: BrokerConfig,
    listener: ListenerSasl,
    image: Callable[[], MetadataImage],
    machine: Machine,
    log: FilteringBoundLogger,
) -> Mapping[str, Callable[[], ServerExchange]]:
    from ottla.security.sasl.plain import PlainServer
    from ottla.security.sasl.scram_store import ScramStore

    mechanisms: dict[str, Callable[[], ServerExchange]] = {}
    for name in listener.mechanisms:
        if name == PLAIN:
            mechanisms[name] = partial(PlainServer, listener.passwords)
        elif name in MECHANISMS:
            token_secret = config.value(SECRET_KEY)
            store = ScramStore(
                MECHANISMS[name],
                image,
                _secret(config),
                token_secret if isinstance(token_secret, str) else None,
                machine.clock,
                machine.executor,
            )
            mechanisms[name] = partial(_scram, MECHANISMS[name], store.find)
        elif name == OAUTHBEARER and listener.oauth is not None:
            mechanisms[name] = _oauth(listener.oauth, machine, log)
        elif listener.kerberos is not None:
            mechanisms[name] = _gssapi(listener.kerberos, machine)
    return mechanisms


def _oauth(
    settings: OauthSettings, machine: Machine, log: FilteringBoundLogger
) -> Callable[[], ServerExchange]:
    from ottla.security.sasl.oauth.endpoints import fetch
    from ottla.security.sasl.oauth.key_source import KeySource
    from ottla.security.sasl.oauth.oauthbearer import OauthServer

    if settings.rules.issuer is None or not settings.rules.audiences:
        log.warning(
            "tokens of any issuer or without an audience are accepted",
            advice="set sasl.oauthbearer.expected.issuer and sasl.oauthbearer.expected.audience",
        )
    executor = LoopExecutor(asyncio.get_running_loop())
    source = KeySource(settings.keys, fetch, executor, machine.clock, log)
    return lambda: OauthServer(
        settings.rules,
        source.keys,
        machine.clock.now_ms,
        lambda reason: log.info("token refused", reason=reason),
    )


def _gssapi(settings: KerberosListener, machine: Machine) -> Callable[[], ServerExchange]:
    from ottla.security.sasl.kerberos.exchange import GssapiServer
    from ottla.security.sasl.kerberos.library import default_realm, new_acceptor
    from ottla.security.sasl.kerberos.short_names import ShortNames

    new_context = new_acceptor(settings.table)
    names = ShortNames(settings.rules, default_realm())
    return partial(GssapiServer, new_context, names, machine.executor)


def _scram(mechanism: ScramMechanism, find: Find) -> ScramServer:
    import secrets

    from ottla.security.sasl.scram import ScramServer

    return ScramServer(mechanism, find, secrets.token_urlsafe(_NONCE_BYTES))


def _secret(config: BrokerConfig) -> bytes:
    """A secret that nodes with the same secrets in their settings have in common; a random one without any."""
    import hashlib
    import secrets

    texts = [
        text
        for name, text in sorted(config.explicit.items())
        if name == SECRET_KEY or name.endswith("sasl.jaas.config")
    ]
    return hashlib.sha256("\0".join(texts).encode()).digest() if texts else secrets.token_bytes(32)
