"""Three nodes with SASL on all listeners and an authorizer: rights on every broker, revoked rights, a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from ottla.security import resources
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from tests.support.raw import Closed
from tests.support.sasl import USERS, SaslClient, plain_jaas
from tests.support.waiting import wait_until

TIMEOUT_S = 60
NODES = 3


def settings_of(node_id: int, ports: list[int]) -> dict[str, str]:
    """The nodes authenticate as the super user."""
    voters = ",".join(f"{id_}@127.0.0.1:{ports[NODES + id_]}" for id_ in range(NODES))
    return {
        "node.id": str(node_id),
        "process.roles": "broker,controller",
        "listeners": f"CLIENTS://127.0.0.1:{ports[node_id]},CONTROLLER://127.0.0.1:{ports[NODES + node_id]}",
        "advertised.listeners": f"CLIENTS://127.0.0.1:{ports[node_id]}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.quorum.voters": voters,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": plain_jaas(),
        "listener.name.controller.plain.sasl.jaas.config": plain_jaas(),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
    }


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    ports = free_ports(2 * NODES)
    with ExitStack() as stack:
        made = []
        for node_id in range(NODES):
            process = BrokerProcess(tmp_path / str(node_id), settings_of(node_id, ports), port=ports[node_id])
            stack.callback(process.kill)
            process.launch()
            made.append(process)
        for process in made:
            process.wait_ready()
        yield made


def client(nodes: list[BrokerProcess], user: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(node.bootstrap for node in nodes),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": USERS[user],
        **more,
    }


def allow(kind: ResourceType, name: str, operation: AclOperation) -> AclBinding:
    literal = ResourcePatternType.LITERAL
    return AclBinding(kind, name, literal, "User:alice", "*", operation, AclPermissionType.ALLOW)


def create(admin: AdminClient, *bindings: AclBinding) -> None:
    for future in admin.create_acls(list(bindings)).values():
        future.result(TIMEOUT_S)


def write(producer: Producer) -> KafkaError | None:
    """Send one record; returns the error of its delivery, or of an earlier one that the client remembers."""
    errors: list[KafkaError | None] = []
    try:
        producer.produce("orders", b"value", on_delivery=lambda error, _: errors.append(error))
    except KafkaException as error:
        return cast(KafkaError, error.args[0])
    assert producer.flush(TIMEOUT_S) == 0
    return errors[0]


def read(nodes: list[BrokerProcess], user: str) -> KafkaError | None:
    """Read one record with a group; returns the first error."""
    consumer = Consumer(client(nodes, user, **{"group.id": "readers", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["orders"])
    found: list[KafkaError | None] = []

    def responded() -> bool:
        found.extend(message.error() for message in consumer.consume(1, 1.0))
        return bool(found)

    try:
        wait_until(responded, "a record or an error", TIMEOUT_S)
    finally:
        consumer.close()
    return found[0]


def create_raw(node: BrokerProcess, user: str) -> int:
    """The error code of a CreateAcls request to one broker."""
    entry = AclCreation(
        resource_type=resources.ResourceType.TOPIC,
        resource_name=f"of-{user}",
        resource_pattern_type=resources.PatternType.LITERAL,
        principal=f"User:{user}",
        host="*",
        operation=resources.Operation.READ,
        permission_type=resources.Permission.ALLOW,
    )
    with SaslClient(node.bootstrap) as connection:
        connection.login(user)
        response = connection.ask(CreateAclsRequest(creations=[entry]), 3, CreateAclsResponse)
    assert not isinstance(response, Closed)
    return response.results[0].error_code


def test_rights_on_every_broker(nodes: list[BrokerProcess]) -> None:
    admin = AdminClient(client(nodes, "admin"))
    wait_until(lambda: len(admin.list_topics(timeout=TIMEOUT_S).brokers) == NODES, "all brokers", TIMEOUT_S)
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(TIMEOUT_S)
    writing = allow(ResourceType.TOPIC, "orders", AclOperation.WRITE)
    create(
        admin,
        writing,
        allow(ResourceType.TOPIC, "orders", AclOperation.READ),
        allow(ResourceType.GROUP, "readers", AclOperation.READ),
    )
    producers = {user: Producer(client(nodes, user, acks="all")) for user in ("alice", "bob")}
    wait_until(lambda: write(producers["alice"]) is None, "the rights of alice on the leader", TIMEOUT_S)
    error = write(producers["bob"])
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert read(nodes, "alice") is None
    error = read(nodes, "bob")
    assert error is not None
    assert error.code() in (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED)

    for node in nodes:  # two of them forward the request
        assert create_raw(node, "bob") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert create_raw(node, "admin") == ErrorCode.NONE

    nodes[0].kill()
    wait_until(lambda: len(admin.list_topics(timeout=TIMEOUT_S).brokers) == NODES - 1, "the end", TIMEOUT_S)
    assert write(producers["alice"]) is None
    wanted = AclBindingFilter(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:alice",
        None,
        AclOperation.WRITE,
        AclPermissionType.ANY,
    )
    assert list(admin.delete_acls([wanted])[wanted].result(TIMEOUT_S)) == [writing]

    def refused() -> bool:
        error = write(producers["alice"])
        return error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED

    wait_until(refused, "the revocation on the leader, on the connection that exists", TIMEOUT_S)
    nodes[0].start()
    assert create_raw(nodes[0], "bob") == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    denied = [line for line in nodes[1].output().splitlines() if "kafka.authorizer.logger" in line]
    assert not any("User:admin" in line for line in denied), "the nodes are denied nothing"
