"""Session with one cluster: settings, connections, and the request patterns of administration.

A session owns one `client.raw` cluster, with one connection per broker. All calls block for `timeout_s` at most. A
session may be used from several threads; requests on the same connection wait for each other.

Errors are those of `client.raw`: `Refused` with the error code of the cluster, `TimedOut`, `AuthenticationFailed`. In
addition `connect` raises `CannotConnect` at once if no bootstrap address accepts a connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TypeVar

from ottla.base.clock import Clock, SystemClock
from ottla.base.errors import ErrorCode
from ottla.client.raw import ClientError, ClientSettings, Cluster, Refused
from ottla.client.raw.cluster import GROUP
from ottla.client.raw.connection import Connection, PendingRequest
from ottla.client.raw.errors import ConnectionLost, RetriableError, error_name, is_retriable
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.schema import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

TIMEOUT_S = 10.0
CLIENT_ID = "ottla-admin"
_CONNECT_TIMEOUT_S = 5.0
_WRONG_COORDINATOR = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class CannotConnect(ClientError):
    """No bootstrap address accepts a connection. The text names the addresses and the errors."""


class Session:
    """Connections to one cluster. Use it as a context manager, or call `close`."""

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, str] | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Clock | None = None,
    ) -> None:
        """`settings` have the names of librdkafka or Java, such as `security.protocol`."""
        self.bootstrap = bootstrap
        self.settings = dict(settings or {})
        self.timeout_s = timeout_s
        self.clock: Clock = clock or SystemClock()
        options = {
            "client.id": CLIENT_ID,
            "request.timeout.ms": str(int(timeout_s * 1000)),
            "default.api.timeout.ms": str(int(timeout_s * 1000)),
            "socket.connection.setup.timeout.ms": str(int(min(timeout_s, _CONNECT_TIMEOUT_S) * 1000)),
            **self.settings,
            "bootstrap.servers": bootstrap,
        }
        self.cluster = Cluster(ClientSettings.from_options(options))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.cluster.close()

    def connect(self) -> None:
        """Open a connection to any broker. Raise CannotConnect at once if that fails, without further attempts."""
        try:
            self.cluster.any_connection()
        except ConnectionLost as error:
            raise CannotConnect(
                f"cannot connect to {self.bootstrap}: {error}; check that a broker runs there"
                " (`ottla doctor` finds the cause, `ottla up` starts a cluster)"
            ) from error

    def client_settings(self) -> dict[str, str]:
        """The settings for a client of confluent-kafka."""
        return {"client.id": CLIENT_ID, **self.settings, "bootstrap.servers": self.bootstrap}

    # --- requests

    @property
    def timeout_ms(self) -> int:
        return int(self.timeout_s * 1000)

    def metadata(self, topics: Iterable[str] | None = ()) -> MetadataResponse:
        """The brokers and these topics, or all if None, as one broker reports them."""
        return self.cluster.metadata(topics)

    def nodes(self) -> list[int]:
        """The ids of the brokers that are registered and not fenced."""
        return self.cluster.brokers()

    def retrying(self, what: str, attempt: Callable[[], T]) -> T:
        """Repeat a call after lost connections and retriable errors, until the timeout."""
        retry = self.cluster.retry(what)
        while True:
            try:
                return attempt()
            except (ConnectionLost, RetriableError) as error:
                retry.backoff(error)

    def request(self, request: Message, response: type[R], *, newest: int | None = None) -> R:
        """Send a request to any broker, again if the connection is lost. The caller checks error codes."""
        name = type(request).__name__.removesuffix("Request")
        return self.retrying(
            name, lambda: self.cluster.any_connection().request(request, response, newest=newest)
        )

    def request_coordinator(
        self, key: str, request: Message, response: type[R], *, kind: int = GROUP, newest: int | None = None
    ) -> R:
        """Send one request to the coordinator of a group. `retrying` and `check_coordinator` handle errors."""
        return self.cluster.request_coordinator(kind, key, request, response, newest=newest)

    def check_coordinator(
        self, key: str, what: str, code: int, *, kind: int = GROUP, message: str | None = None
    ) -> None:
        """As `check`; the coordinator is looked up again if it has moved."""
        if code in _WRONG_COORDINATOR:
            self.cluster.forget_coordinator(kind, key)
        check(what, code, message)

    def broadcast(
        self, requests: Mapping[int, Message], response: type[R], *, newest: int | None = None
    ) -> tuple[dict[int, R], dict[int, ClientError]]:
        """Send one request to each node at the same time; return the responses and the errors by node.

        A node that cannot be reached is tried twice: its old connection may have been closed by a restart.
        """
        found: dict[int, R] = {}
        failed: dict[int, ClientError] = {}
        for _ in range(2):
            missing = {node: each for node, each in requests.items() if node not in found}
            if not missing:
                break
            answered, failed = self._broadcast_once(missing, response, newest)
            found |= answered
        return found, failed

    def _broadcast_once(
        self, requests: Mapping[int, Message], response: type[R], newest: int | None
    ) -> tuple[dict[int, R], dict[int, ClientError]]:
        sent: dict[int, tuple[Connection, PendingRequest]] = {}
        found: dict[int, R] = {}
        failed: dict[int, ClientError] = {}
        with ExitStack() as stack:
            for node, request in requests.items():
                try:
                    connection = self.cluster.connection(node)
                    pending = connection.send(request, newest=newest)
                except ClientError as error:
                    failed[node] = error
                else:
                    sent[node] = connection, pending
                    stack.callback(connection.discard, pending)
            for node, (connection, pending) in sent.items():
                try:
                    found[node] = connection.receive(pending, response)
                except ClientError as error:
                    failed[node] = error
        return found, failed


def check(what: str, code: int, message: str | None = None) -> None:
    """Raise RetriableError or Refused unless the code is NONE."""
    if code == ErrorCode.NONE:
        return
    if is_retriable(code):
        raise RetriableError(f"{what}: {message or error_name(code)}")
    raise Refused(what, code, message)
