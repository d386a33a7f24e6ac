"""The client side of the configured mechanism, for connections of nodes and of clients."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from ottla.base.errors import violated
from ottla.base.executor import Executor
from ottla.base.promise import Promise
from ottla.security.sasl.exchange import PLAIN, ClientExchange, Work
from ottla.security.sasl.oauth.oauthbearer import oauth_client
from ottla.security.sasl.plain import plain_client
from ottla.security.sasl.scram import scram_client
from ottla.security.sasl.settings import Credentials
from ottla.security.scram_keys import MECHANISMS


class Login(Protocol):
    """The login to the nodes of a cluster."""

    @property
    def mechanism(self) -> str: ...

    def new_exchange(self, host: str) -> ClientExchange:
        """The client side for a new connection to a host."""
        ...

    def run(self, work: Work) -> Promise[Any]:
        """Run work of an exchange beside the event loop."""
        ...


def client_exchange(
    credentials: Credentials, host: str, nonce: Callable[[], str], token: Callable[[], str] | None = None
) -> ClientExchange:
    """The client side of the mechanism of `credentials` for a host; `token` returns a token for OAUTHBEARER."""
    options, mechanism = credentials.options, credentials.mechanism
    if mechanism == PLAIN:
        return plain_client(options["username"], options["password"])
    if mechanism in MECHANISMS:
        by_token = options.get("tokenauth", "").lower() == "true"
        return scram_client(
            MECHANISMS[mechanism], options["username"], options["password"], nonce(), token=by_token
        )
    if token is not None:
        return oauth_client(token)
    if credentials.kerberos is not None:
        from ottla.security.sasl.kerberos.exchange import gssapi_client
        from ottla.security.sasl.kerberos.library import new_initiator

        return gssapi_client(partial(new_initiator, credentials.kerberos, host))
    violated(f"mechanism {mechanism} has passed the check of settings")


class NodeLogin:
    """The login of a node: work is run in the executor, and the result of a key is kept until it changes."""

    def __init__(
        self,
        credentials: Credentials,
        nonce: Callable[[], str],
        executor: Executor,
        token: Callable[[], str] | None = None,
    ) -> None:
        self._credentials = credentials
        self._token = token
        self._nonce = nonce
        self._executor = executor
        self._kept: tuple[object, Any] | None = None

    @property
    def mechanism(self) -> str:
        return self._credentials.mechanism

    def new_exchange(self, host: str) -> ClientExchange:
        return client_exchange(self._credentials, host, self._nonce, self._token)

    def run(self, work: Work) -> Promise[Any]:
        if self._kept is not None and work.key is not None and self._kept[0] == work.key:
            return Promise.kept(self._kept[1])
        promise: Promise[Any] = Promise()
        results: list[Any] = []

        def done(error: BaseException | None) -> None:
            if error is not None:
                promise.fail(error)
                return
            if work.key is not None:
                self._kept = (work.key, results[0])
            promise.keep(results[0])

        self._executor.submit(lambda: results.append(work.run()), done)
        return promise
