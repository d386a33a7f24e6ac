"""Three nodes that log in to each other by Kerberos, as brokers and as controllers, with short sessions and a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.raw import ClientSettings, Cluster
from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from tests.compat.kerberos.realm import Realm
from tests.support.sasl import USERS, plain_jaas
from tests.support.waiting import wait_until

pytestmark = pytest.mark.compat
TIMEOUT_S = 60
NODES = 3
SETTING = "listener.name.{}.{}.sasl.jaas.config"


def settings(realm: Realm, ports: list[int], node_id: int) -> dict[str, str]:
    """Clients may use PLAIN too: the client of this test has no Kerberos."""
    client, controller = ports[node_id], ports[NODES + node_id]
    return realm.broker_settings(client) | {
        "node.id": str(node_id),
        "process.roles": "broker,controller",
        "listeners": f"CLIENTS://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"CLIENTS://localhost:{client}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.quorum.voters": ",".join(f"{id_}@localhost:{ports[NODES + id_]}" for id_ in range(NODES)),
        "listener.name.clients.sasl.enabled.mechanisms": "GSSAPI,PLAIN",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        SETTING.format("clients", "gssapi"): realm.jaas(),
        SETTING.format("controller", "gssapi"): realm.jaas(),
        SETTING.format("clients", "plain"): plain_jaas(own=None),
        "connections.max.reauth.ms": "3000",
        "min.insync.replicas": "3",
    }


@pytest.fixture
def nodes(realm: Realm, tmp_path: Path) -> Iterator[list[BrokerProcess]]:
    ports = free_ports(2 * NODES)
    made = [
        BrokerProcess(tmp_path / str(id_), settings(realm, ports, id_), port=ports[id_])
        for id_ in range(NODES)
    ]
    with ExitStack() as stack:
        for node in made:
            stack.callback(node.kill)
            node.launch()
        for node in made:
            node.wait_ready()
        yield made


def test_nodes_log_in_to_each_other_and_renew_their_sessions(
    realm: Realm, nodes: list[BrokerProcess]
) -> None:
    client: dict[str, Any] = {
        "bootstrap.servers": ",".join(node.bootstrap for node in nodes),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": USERS["alice"],
    }
    admin = AdminClient(client)

    def in_sync() -> list[int]:
        topics = admin.list_topics("orders", timeout=TIMEOUT_S).topics
        return [len(each.isrs) for each in topics["orders"].partitions.values()]

    wait_until(lambda: len(admin.list_topics(timeout=TIMEOUT_S).brokers) == NODES, "all brokers", TIMEOUT_S)
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(TIMEOUT_S)
    producer = Producer({**client, "acks": "all"})
    for number in range(100):
        producer.produce("orders", str(number))
    assert producer.flush(TIMEOUT_S) == 0
    nodes[0].kill()
    wait_until(lambda: in_sync() == [2, 2, 2], "the end of a broker", TIMEOUT_S)
    nodes[0].start()
    wait_until(lambda: in_sync() == [3, 3, 3], "all replicas", TIMEOUT_S)
    for number in range(100):
        producer.produce("orders", str(number))
    assert producer.flush(TIMEOUT_S) == 0
    with Cluster(ClientSettings.from_options(realm.client_settings() | own_bootstrap(nodes))) as cluster:
        assert "orders" in cluster.topics()
    for node in nodes:
        assert node.stop() == 0
        assert "session of the client has expired" not in node.output(), "nodes renew their sessions"
        assert "authentication failed" not in node.output()


def own_bootstrap(nodes: list[BrokerProcess]) -> dict[str, str]:
    return {"bootstrap.servers": ",".join(f"localhost:{node.port}" for node in nodes)}
