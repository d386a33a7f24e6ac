"""Every API with clients that are anonymous, have no right, are denied, are allowed, or are super users."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.base.promise import Promise
from ottla.broker.authorization import AclAuthorization
from ottla.broker.handlers import load_all
from ottla.broker.net.listeners import Listener, ListenerType
from ottla.broker.net.origin import Origin
from ottla.broker.registry import Call, Handlers, Route
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from ottla.security import principal as principals
from ottla.security.acls.authorizer import AclAuthorizer
from ottla.security.resources import Permission
from ottla.wire.schema import Message
from tests.support.authorized_broker import ANONYMOUS, PRINCIPALS, SUPER, AuthorizedBroker, settings
from tests.support.raw import Closed
from tests.support.rights import AUTHORIZATION_ERRORS, QUORUM, ROWS, Row, Values, error_codes, value_at


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizedBroker]:
    client, opened, controller, control = ports = cast(tuple[int, int, int, int], tuple(free_ports(4)))
    folder = tmp_path_factory.mktemp("rights") / "data"
    with BrokerProcess(folder, settings(client, opened, controller, control), port=client):
        broker = AuthorizedBroker(ports)
        broker.prepare()
        yield broker


def test_no_api_is_omitted() -> None:
    """Every API that a listener serves has a row, and declares what the row checks."""
    rows = {(row.request_class.SPEC.api_key, row.listener) for row in ROWS}
    quorum = {(route.api_key, ListenerType.CONTROLLER) for route in _quorum_routes()}
    served = {(int(route.api_key), listener) for route in load_all() for listener in route.listeners}
    assert served == rows | quorum


def test_the_declared_rights_are_those_of_the_rows() -> None:
    for route in load_all():
        if route in _quorum_routes():
            continue
        for listener in route.listeners:
            rows = [
                row
                for row in ROWS
                if row.request_class.SPEC.api_key == route.api_key and row.listener is listener
            ]
            used = {right[:2] for row in rows for right in (*row.needs, *row.alternatives)}
            declared = {(right.operation, right.resource_type) for right in route.requires.rights}
            declared |= {(operation, 4) for operation in route.requires.cluster}
            assert used <= declared, route.api_key.name
            assert not (declared and not used), route.api_key.name


def send(secured: AuthorizedBroker, row: Row, user: str) -> Any:
    with secured.connect(user, row.listener) as client:
        response = client.ask(row.request(secured.world), row.version, row.response_class)
    assert not isinstance(response, Closed)
    return response


def check(response: Any, values: Values) -> None:
    found = {path: value_at(response, path) for path in values}
    assert found == values, response


@pytest.mark.parametrize("principal", PRINCIPALS)
@pytest.mark.parametrize("row", ROWS, ids=[row.title for row in ROWS])
def test_each_api_with_each_principal(secured: AuthorizedBroker, row: Row, principal: str) -> None:
    if principal == "denied":
        with secured.entries((*row.needs, *row.alternatives), principal, Permission.DENY):
            check(send(secured, row, principal), row.denied)
    elif principal == "allowed":
        for count, values in enumerate(row.steps, 1):
            with secured.entries(row.needs[:count], principal):
                check(send(secured, row, principal), values)
        for rights in (row.needs, *((*row.needs[:-1], other) for other in row.alternatives)):
            with secured.entries(rights, principal):
                response = send(secured, row, principal)
            check(response, row.allowed)
            assert row.allowed or not error_codes(response) & AUTHORIZATION_ERRORS
    elif principal == SUPER:
        assert not error_codes(send(secured, row, principal)) & AUTHORIZATION_ERRORS
    elif principal == ANONYMOUS and row.anonymous is not None:
        check(send(secured, row, principal), row.anonymous)
    else:
        check(send(secured, row, principal), row.denied)


def _quorum_routes() -> list[Route]:
    names = {name.upper() for name in QUORUM}
    return [
        route
        for route in load_all()
        if route.api_key.name in names and route.listeners == {ListenerType.CONTROLLER}
    ]


@pytest.mark.parametrize("route", _quorum_routes(), ids=lambda route: route.api_key.name)
@pytest.mark.parametrize("user", ["root", "other", ANONYMOUS])
def test_requests_of_the_quorum_need_cluster_action(route: Route, user: str) -> None:
    """A quorum of one does not serve them: here the handler is called with its checks."""
    handled: list[object] = []

    def receive(request: Message) -> Promise[Message]:
        handled.append(request)
        return Promise()

    authorizer = AclAuthorizer(
        frozenset({"User:root"}), allow_without_entries=False, early_start_listeners=frozenset()
    )
    parts = SimpleNamespace(authorization=AclAuthorization(authorizer), quorum_requests=receive)
    bound = Handlers([route], parts, cast(asyncio.AbstractEventLoop, None)).on(ListenerType.CONTROLLER)
    listener = Listener("CONTROLLER", "", 0, "", 0, ListenerType.CONTROLLER)
    origin = Origin(listener, "127.0.0.1", 1, principals.user(user))
    authorizer.loaded = True
    assert route.request is not None
    for version in range(route.versions[0], route.versions[1] + 1):
        response = bound[route.api_key].handle(route.request(), Call(version, 1, None, origin))
        if user == "root":
            assert isinstance(response, Promise)
        else:
            assert response.error_code == 31
    assert bool(handled) == (user == "root")
