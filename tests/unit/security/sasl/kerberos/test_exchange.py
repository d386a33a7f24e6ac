"""The exchange of GSSAPI around a security context that is not Kerberos; tests/compat has the real one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.base.executor import Done, Work
from ottla.security.sasl.exchange import SaslFailed, SaslRefused, run_client
from ottla.security.sasl.kerberos.context import ContextFailed
from ottla.security.sasl.kerberos.exchange import GssapiServer, gssapi_client
from ottla.security.sasl.kerberos.short_names import ShortNames

NO_LAYER = b"\1\0\0\0"
NAMES = ShortNames(["DEFAULT"], "A.TEST")


class Direct:
    """An executor that runs work at once."""

    def submit(self, work: Work, done: Done) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - it is given to the owner
            done(error)
        else:
            done(None)


class FakeContext:
    """One side of a context: it expects tokens and answers with others; wrapped messages begin with `wrapped`."""

    def __init__(self, script: dict[bytes | None, bytes | None], initiator: str = "ann@A.TEST") -> None:
        self._script = dict(script)
        self.initiator = initiator

    @property
    def complete(self) -> bool:
        return not self._script

    def step(self, token: bytes | None) -> bytes | None:
        if token not in self._script:
            raise ContextFailed("bad token", retriable=token == b"replay")
        return self._script.pop(token)

    def wrap(self, message: bytes) -> bytes:
        return b"wrapped" + message

    def unwrap(self, message: bytes) -> bytes:
        if not message.startswith(b"wrapped"):
            raise ContextFailed("not wrapped")
        return message.removeprefix(b"wrapped")


def server(
    script: dict[bytes | None, bytes | None] | None = None, initiator: str = "ann@A.TEST"
) -> GssapiServer:
    context = FakeContext({b"first": b"proof"} if script is None else script, initiator)
    return GssapiServer(lambda: context, NAMES, Direct())


def wrapped(message: bytes) -> bytes:
    return b"wrapped" + message


def said(exchange: GssapiServer, *messages: bytes) -> list[bytes]:
    return [exchange.respond(message).result() for message in messages]


def refuses(exchange: GssapiServer, message: bytes, complaint: str) -> SaslRefused:
    with pytest.raises(SaslRefused, match=complaint) as refused:
        exchange.respond(message).result()
    assert exchange.identity is None
    assert refused.value.shown is None
    return refused.value


class TestServer:
    def test_with_mutual_authentication(self) -> None:
        exchange = server()
        assert said(exchange, b"first", b"") == [b"proof", wrapped(NO_LAYER)]
        assert exchange.identity is None
        assert said(exchange, wrapped(NO_LAYER)) == [b""]
        assert exchange.identity is not None
        assert (exchange.identity.name, exchange.identity.expires_ms) == ("ann", None)

    def test_without_mutual_authentication_the_offer_comes_first(self) -> None:
        exchange = server({b"first": None})
        assert said(exchange, b"first", wrapped(NO_LAYER)) == [wrapped(NO_LAYER), b""]
        assert exchange.identity is not None

    def test_a_context_of_several_tokens(self) -> None:
        exchange = server({b"first": b"more", b"second": b"proof"})
        assert said(exchange, b"first", b"second", b"") == [b"more", b"proof", wrapped(NO_LAYER)]

    @pytest.mark.parametrize("authorization_id", [b"ann@A.TEST", b"bob", b"\xff\xfe"])
    def test_the_authorization_id_is_ignored(self, authorization_id: bytes) -> None:
        exchange = server({b"first": None})
        said(exchange, b"first", wrapped(b"\1\0\1\0" + authorization_id))
        assert exchange.identity is not None
        assert exchange.identity.name == "ann"

    @pytest.mark.parametrize("layer", [0, 2, 3, 4, 5, 7, 255])
    def test_another_layer_is_refused(self, layer: int) -> None:
        exchange = server({b"first": None})
        said(exchange, b"first")
        refuses(exchange, wrapped(bytes((layer, 0, 0, 0))), f"security layer {layer},")

    @pytest.mark.parametrize("message", [b"", b"\1", b"\1\0\0"])
    def test_a_short_choice_is_refused(self, message: bytes) -> None:
        exchange = server({b"first": None})
        said(exchange, b"first")
        refuses(exchange, wrapped(message), f"{len(message)} bytes")

    def test_a_choice_that_is_not_wrapped_is_refused(self) -> None:
        exchange = server({b"first": None})
        said(exchange, b"first")
        refuses(exchange, NO_LAYER, "not wrapped")

    def test_the_offer_needs_an_empty_message(self) -> None:
        exchange = server()
        said(exchange, b"first")
        refuses(exchange, wrapped(NO_LAYER), "empty one is expected")

    def test_nothing_is_accepted_after_a_refusal(self) -> None:
        exchange = server()
        assert not refuses(exchange, b"garbage", "bad token").retriable
        refuses(exchange, b"first", "after the end")

    def test_nothing_is_accepted_after_the_end(self) -> None:
        exchange = server({b"first": None})
        said(exchange, b"first", wrapped(NO_LAYER))
        with pytest.raises(SaslRefused, match="after the end"):
            said(exchange, wrapped(NO_LAYER))

    def test_a_replay_is_retriable(self) -> None:
        assert refuses(server(), b"replay", "bad token").retriable

    def test_a_principal_without_a_name_is_refused(self) -> None:
        exchange = server({b"first": None}, "ann@B.TEST")
        said(exchange, b"first")
        refuses(exchange, wrapped(NO_LAYER), "no rule")


def client(script: dict[bytes | None, bytes | None], *responses: bytes) -> list[bytes]:
    """The messages of a client whose context follows the script."""
    sent: list[bytes] = []
    given = iter(responses)

    def send(message: bytes) -> bytes:
        sent.append(message)
        return next(given)

    run_client(gssapi_client(lambda: FakeContext(script)), send)
    return sent


class TestClient:
    def test_with_mutual_authentication(self) -> None:
        sent = client({None: b"first", b"proof": None}, b"proof", wrapped(b"\1\0\0\0"), b"")
        assert sent == [b"first", b"", wrapped(NO_LAYER)]

    def test_a_broker_that_offers_layers_too(self) -> None:
        assert client({None: b"first"}, wrapped(b"\7\0\xff\xff"), b"")[-1] == wrapped(NO_LAYER)

    @pytest.mark.parametrize("offer", [b"\6\0\xff\xff", b"\0\0\0\0", b"\1\0\0", b"", b"\1\0\0\0\0"])
    def test_a_broker_that_requires_a_layer_is_refused(self, offer: bytes) -> None:
        with pytest.raises(SaslFailed, match="security layer"):
            client({None: b"first"}, wrapped(offer))

    def test_an_offer_that_is_not_wrapped_is_refused(self) -> None:
        with pytest.raises(SaslFailed, match="not wrapped"):
            client({None: b"first"}, NO_LAYER)

    def test_a_broker_without_the_right_proof_is_refused(self) -> None:
        with pytest.raises(ContextFailed, match="bad token"):
            client({None: b"first", b"proof": None}, b"forged")

    def test_both_sides(self) -> None:
        exchange = server()
        respond: Callable[[bytes], bytes] = lambda message: exchange.respond(message).result()  # noqa: E731
        run_client(gssapi_client(lambda: FakeContext({None: b"first", b"proof": None})), respond)
        assert exchange.identity is not None
