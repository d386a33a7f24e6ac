"""Three nodes with SASL on all listeners, with and without TLS, sessions of a few seconds, and a kill."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_ports
from tests.support.certificates import Authority
from tests.support.sasl import USERS, oauth_settings, plain_jaas, scram_jaas
from tests.support.tokens import Provider
from tests.support.waiting import wait_until

TIMEOUT_S = 60
NODES = 3


class Cluster:
    """Clients use PLAIN or SCRAM; brokers SCRAM or OAUTHBEARER, and controllers PLAIN or OAUTHBEARER."""

    def __init__(self, path: Path, protocol: str, node_mechanisms: tuple[str, str]) -> None:
        self.path, self.protocol = path, protocol
        self.inter_broker, self.controller = node_mechanisms
        self.ports = free_ports(2 * NODES)
        authority = Authority()
        self.ca = authority.write_pem(path / "ca.pem")
        self.keys = authority.issue("node").write_pem(path / "node.pem")
        provider = Provider()
        self.oauth = oauth_settings(provider.write_jwks(path / "jwks.json"))
        token = path / "token"
        token.write_text(provider.token(sub="node"))
        self.oauth["sasl.oauthbearer.token.endpoint.url"] = token.as_uri()
        self.oauth["org.apache.kafka.sasl.oauthbearer.allowed.urls"] += f",{token.as_uri()}"
        arguments = ["--add-scram", "SCRAM-SHA-512=[name=node,password=node-secret]"]
        self.nodes = [
            BrokerProcess(path / str(id_), self.settings(id_), port=self.ports[id_], arguments=arguments)
            for id_ in range(NODES)
        ]

    def settings(self, node_id: int) -> dict[str, str]:
        client, controller = self.ports[node_id], self.ports[NODES + node_id]
        voters = ",".join(f"{id_}@127.0.0.1:{self.ports[NODES + id_]}" for id_ in range(NODES))
        return {
            "node.id": str(node_id),
            "process.roles": "broker,controller",
            "listeners": f"CLIENTS://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"CLIENTS://127.0.0.1:{client}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENTS",
            "listener.security.protocol.map": f"CLIENTS:{self.protocol},CONTROLLER:{self.protocol}",
            "controller.quorum.voters": voters,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
            "sasl.mechanism.inter.broker.protocol": self.inter_broker,
            "sasl.mechanism.controller.protocol": self.controller,
            "listener.name.clients.plain.sasl.jaas.config": plain_jaas(own=None),
            "listener.name.clients.scram-sha-512.sasl.jaas.config": scram_jaas("node", "node-secret"),
            "listener.name.controller.plain.sasl.jaas.config": plain_jaas({"node": "node-secret"}, "node"),
            "connections.max.reauth.ms": "3000",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node;User:alice",
            "default.replication.factor": "3",
            "min.insync.replicas": "2",
            "offsets.topic.replication.factor": "3",
            **self.oauth,
            **(self.tls() if self.protocol == "SASL_SSL" else {}),
        }

    def tls(self) -> dict[str, str]:
        return {"ssl.keystore.location": str(self.keys), "ssl.truststore.location": str(self.ca)}

    def client(self, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(node.bootstrap for node in self.nodes),
            "security.protocol": self.protocol,
            "ssl.ca.location": str(self.ca),
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
            **more,
        }

    def consumed(self, count: int) -> list[int]:
        options = {"group.id": "readers", "auto.offset.reset": "earliest"}
        consumer = Consumer(self.client(**options))
        consumer.subscribe(["orders"])
        found: list[int] = []

        def all_read() -> bool:
            messages = consumer.consume(count, 1.0)
            found.extend(int(message.value() or b"-1") for message in messages if not message.error())
            return len(set(found)) >= count

        try:
            wait_until(all_read, "all records", TIMEOUT_S)
        finally:
            consumer.close()
        return sorted(set(found))


@pytest.fixture(
    params=[
        ("SASL_PLAINTEXT", ("SCRAM-SHA-512", "PLAIN")),
        ("SASL_SSL", ("SCRAM-SHA-512", "PLAIN")),
        ("SASL_SSL", ("OAUTHBEARER", "OAUTHBEARER")),
    ],
    ids=["plaintext", "tls", "tls with tokens"],
)
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    made = Cluster(tmp_path, *request.param)
    with ExitStack() as stack:
        for node in made.nodes:
            stack.callback(node.kill)
            node.launch()
        for node in made.nodes:
            node.wait_ready()
        yield made


def test_a_cluster_with_sasl_on_all_listeners_survives_a_kill(cluster: Cluster) -> None:
    admin = AdminClient(cluster.client())

    def listed() -> int:
        return len(admin.list_topics(timeout=TIMEOUT_S).brokers)

    wait_until(lambda: listed() == NODES, "all brokers", TIMEOUT_S)
    admin.create_topics([NewTopic("orders", 3, 3)])["orders"].result(TIMEOUT_S)
    producer = Producer(cluster.client(acks="all"))
    for number in range(100):
        producer.produce("orders", str(number))
    assert producer.flush(TIMEOUT_S) == 0
    cluster.nodes[0].kill()
    wait_until(lambda: listed() == NODES - 1, "the end of a broker", TIMEOUT_S)
    for number in range(100, 200):
        producer.produce("orders", str(number))
    assert producer.flush(TIMEOUT_S) == 0
    cluster.nodes[0].start()
    wait_until(lambda: listed() == NODES, "all brokers", TIMEOUT_S)
    assert cluster.consumed(200) == list(range(200))
    for node in cluster.nodes:
        assert node.stop() == 0
        assert "secret" not in node.output()
        assert "session of the client has expired" not in node.output(), "nodes renew their sessions"
