"""Requests of clients to a controller listener: Envelope needs a right, and the request inside has its own client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.forwarding.envelope import unwrap, wrap
from ottla.broker.net.listeners import Listener
from ottla.broker.net.origin import Origin
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from ottla.security.principal import ANONYMOUS, Principal, user
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.frames import request_frame
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.schema import Message
from tests.support.raw import Address, Closed, RawClient

LISTENER = Listener("CLIENTS", "", 0, "", 0)
CREATE = CreateAclsRequest(
    creations=[
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name="orders",
            resource_pattern_type=PatternType.LITERAL,
            principal="User:alice",
            host="*",
            operation=Operation.READ,
            permission_type=Permission.ALLOW,
        )
    ]
)


@contextmanager
def controller(home: Path, super_users: str) -> Iterator[RawClient]:
    """A client of the controller listener of a node with an authorizer."""
    port, controller_port = free_port(), free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": super_users,
    }
    with (
        BrokerProcess(home / "data", settings, port=port),
        RawClient(Address("127.0.0.1", controller_port)) as client,
    ):
        yield client


def envelope(request: Message, version: int, principal: Principal) -> EnvelopeRequest:
    return wrap(request_frame(request, version, 5, "c")[4:], Origin(LISTENER, "10.1.2.3", None, principal))


def send(client: RawClient, request: EnvelopeRequest) -> EnvelopeResponse:
    response = client.ask(request, 0, EnvelopeResponse)
    assert not isinstance(response, Closed)
    return response


@pytest.mark.parametrize("principal", [ANONYMOUS, user("admin"), Principal("Node", "this")])
def test_a_client_without_cluster_action_cannot_speak_for_others(
    tmp_path: Path, principal: Principal
) -> None:
    with controller(tmp_path, "User:admin") as client:
        response = send(client, envelope(CREATE, 3, principal))
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert not response.response_data
        heartbeat = client.ask(BrokerHeartbeatRequest(broker_id=1), 1, BrokerHeartbeatResponse)
        assert not isinstance(heartbeat, Closed)
        assert heartbeat.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_the_request_inside_is_authorized_for_its_own_client(tmp_path: Path) -> None:
    with controller(tmp_path, "User:ANONYMOUS") as client:
        for principal, code in (
            (user("alice"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            (Principal("Node", "this"), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
            (ANONYMOUS, ErrorCode.NONE),
        ):
            response = send(client, envelope(CREATE, 3, principal))
            assert response.error_code == ErrorCode.NONE
            body = unwrap(response, ApiKey.CREATE_ACLS, 3, 5)  # type: ignore[arg-type]
            (result,) = codec.decode(CreateAclsResponse, body, 3).results
            assert result.error_code == code, principal


def test_only_requests_that_brokers_forward_are_served(tmp_path: Path) -> None:
    with controller(tmp_path, "User:ANONYMOUS") as client:
        response = send(client, envelope(MetadataRequest(topics=None), 12, ANONYMOUS))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        broken = envelope(CREATE, 3, ANONYMOUS)
        broken.request_principal = b"\0\0\xff"
        assert send(client, broken).error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
        unknown = CREATE.creations[0]
        unreadable = CreateAclsRequest(creations=[AclCreation(resource_name=unknown.resource_name)])
        response = send(client, envelope(unreadable, 3, ANONYMOUS))
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert send(client, envelope(CREATE, 3, ANONYMOUS)).error_code == ErrorCode.NONE
