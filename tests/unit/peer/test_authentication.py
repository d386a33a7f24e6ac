"""Authentication to another node: the order of the requests, refusals, sessions; without sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.base.promise import Promise
from ottla.peer.exchange import Exchange, Request
from ottla.security.sasl.exchange import ClientExchange, Identity, SaslFailed, Work
from ottla.security.sasl.login import NodeLogin, client_exchange
from ottla.security.sasl.plain import plain_client
from ottla.security.sasl.scram import Found, ScramServer
from ottla.security.sasl.settings import Credentials
from ottla.security.scram_keys import ScramMechanism
from ottla.testing.executor import InlineExecutor
from ottla.wire import codec
from ottla.wire.frames import parse_request_header, take_frame
from ottla.wire.messages.api_versions import ApiVersion
from ottla.wire.messages.metadata import MetadataResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse
from tests.unit.peer.fakes import SETTINGS, Remote, api_versions, metadata_request, response_to
from tests.unit.security.sasl.test_scram import made

METADATA, HANDSHAKE, AUTHENTICATE = 3, 17, 36


def sasl_versions() -> Any:
    response = api_versions()
    response.api_keys += [
        ApiVersion(api_key=HANDSHAKE, min_version=0, max_version=1),
        ApiVersion(api_key=AUTHENTICATE, min_version=0, max_version=2),
    ]
    return response


class PlainLogin:
    mechanism = "PLAIN"

    def new_exchange(self, host: str) -> ClientExchange:
        return plain_client("node", "secret")

    def run(self, work: Work) -> Promise[Any]:
        raise AssertionError("PLAIN has no work")


class Node:
    """An exchange with a login and its other side."""

    def __init__(self, login: Any) -> None:
        self.done: list[Callable[[Any, BaseException | None], None]] = []
        self.exchange = Exchange("node 1", "host", SETTINGS, login, self.run)
        self.remote = Remote()
        self.exchange.start(10.0)
        (versions,) = self.requests()
        self.receive(versions, sasl_versions())

    def run(self, work: Work, done: Callable[[Any, BaseException | None], None]) -> None:
        done(work.run(), None)

    def requests(self) -> list[tuple[int, int, int]]:
        self.remote.take(self.exchange.take_output())
        return self.remote.requests()

    def receive(self, request: tuple[int, int, int], message: Any) -> None:
        self.exchange.receive(memoryview(response_to(request, message)[4:]))

    def handshake(self) -> None:
        (request,) = self.requests()
        assert request[:2] == (HANDSHAKE, 1)
        self.receive(request, SaslHandshakeResponse(mechanisms=["PLAIN"]))

    def authenticate(self, session_ms: int = 0) -> None:
        self.handshake()
        (request,) = self.requests()
        assert request[:2] == (AUTHENTICATE, 2)
        self.receive(request, SaslAuthenticateResponse(session_lifetime_ms=session_ms))

    def token(self) -> tuple[tuple[int, int, int], bytes]:
        """The next SaslAuthenticate request and its token."""
        frame = take_frame(bytearray(b"".join(self.exchange.take_output())))
        assert frame is not None
        api_key, version, correlation_id, _, body = parse_request_header(memoryview(frame))
        request = codec.decode(SaslAuthenticateRequest, memoryview(frame), version, start=body)
        return (api_key, version, correlation_id), bytes(request.auth_bytes)

    def submit(self) -> Request:
        request = metadata_request()
        self.exchange.submit(request)
        return request


def test_requests_wait_for_the_authentication() -> None:
    node = Node(PlainLogin())
    early = node.submit()
    assert not node.exchange.ready
    node.authenticate()
    assert node.exchange.ready
    assert [request[0] for request in node.requests()] == [METADATA]
    assert not early.promise.done
    assert node.exchange.session_ms == 0


def test_a_mechanism_that_is_not_offered() -> None:
    node = Node(PlainLogin())
    (request,) = node.requests()
    with pytest.raises(SaslFailed, match="does not offer PLAIN, it offers: SCRAM-SHA-256"):
        node.receive(request, SaslHandshakeResponse(error_code=33, mechanisms=["SCRAM-SHA-256"]))


def test_refused_credentials() -> None:
    node = Node(PlainLogin())
    node.handshake()
    (request,) = node.requests()
    with pytest.raises(SaslFailed, match="refused the credentials of this node: no"):
        node.receive(request, SaslAuthenticateResponse(error_code=58, error_message="no"))
    assert not node.exchange.ready


def test_a_node_without_sasl_is_refused() -> None:
    exchange = Exchange("node 1", "host", SETTINGS, PlainLogin())
    remote = Remote()
    exchange.start(10.0)
    remote.take(exchange.take_output())
    (versions,) = remote.requests()
    with pytest.raises(SaslFailed, match="SaslHandshake"):
        exchange.receive(memoryview(response_to(versions, api_versions())[4:]))


def test_re_authentication_behind_the_requests_in_flight() -> None:
    node = Node(PlainLogin())
    node.authenticate(session_ms=1000)
    assert node.exchange.session_ms == 1000
    before = node.submit()
    (first,) = node.requests()
    node.exchange.reauthenticate(20.0)
    node.exchange.reauthenticate(20.0)
    after = node.submit()
    (handshake,) = node.requests()
    assert node.exchange.ready
    node.receive(first, MetadataResponse())
    assert before.promise.done
    node.receive(handshake, SaslHandshakeResponse())
    (token,) = node.requests()
    node.receive(token, SaslAuthenticateResponse(session_lifetime_ms=2000))
    assert node.exchange.session_ms == 2000
    assert [request[0] for request in node.requests()] == [METADATA]
    assert not after.promise.done


def test_steps_have_the_deadline_of_the_connection() -> None:
    node = Node(PlainLogin())
    assert node.exchange.next_deadline() == 10.0
    assert not node.exchange.expire(9.0)
    assert node.exchange.expire(10.0)


class TestScram:
    def test_the_other_side_must_prove_that_it_has_the_credential(self) -> None:
        executor = InlineExecutor()
        credentials = Credentials("SCRAM-SHA-256", {"username": "node", "password": "pencil"})
        login = NodeLogin(credentials, lambda: "nonce", executor)
        mechanism = ScramMechanism.SCRAM_SHA_256
        server = ScramServer(mechanism, lambda *_: Found(made(mechanism, "pencil"), Identity("node")), "s")
        node = Node(login)
        node.handshake()
        for _ in range(2):
            request, token = node.token()
            response = server.respond(token)
            assert isinstance(response, bytes)
            if server.identity is not None:
                response = b"v=AAAA"
                with pytest.raises(SaslFailed, match="is not authentic"):
                    node.receive(request, SaslAuthenticateResponse(auth_bytes=response))
            else:
                node.receive(request, SaslAuthenticateResponse(auth_bytes=response))


class TestNodeLogin:
    def test_work_with_the_same_key_is_run_once(self) -> None:
        executor = InlineExecutor(stepped=True)
        login = NodeLogin(Credentials("PLAIN", {}), lambda: "n", executor)
        runs: list[int] = []
        first = login.run(Work(lambda: runs.append(1) or 7, key="k"))
        executor.run_all()
        assert first.result() == 7
        assert login.run(Work(lambda: runs.append(2) or 8, key="k")).result() == 7
        other = login.run(Work(lambda: runs.append(3) or 9, key="other"))
        executor.run_all()
        assert other.result() == 9
        assert runs == [1, 3]

    def test_an_error_fails_the_promise(self) -> None:
        login = NodeLogin(Credentials("PLAIN", {}), lambda: "n", InlineExecutor())
        assert isinstance(login.run(Work(lambda: 1 // 0)).error, ZeroDivisionError)

    def test_a_delegation_token(self) -> None:
        options = {"username": "id", "password": "hmac", "tokenauth": "true"}
        first = next(client_exchange(Credentials("SCRAM-SHA-512", options), "host", lambda: "nonce"))
        assert first == b"n,,n=id,r=nonce,tokenauth=true"
