"""A broker with an authorizer, users, and ACL entries that a test creates and deletes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.broker.net.listeners import ListenerType
from ottla.security.resources import CLUSTER, Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from ottla.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from tests.support.raw import Closed
from tests.support.rights import GROUP, TOPIC, TXN, Right, World, build
from tests.support.sasl import SaslClient, plain_jaas
from tests.support.waiting import wait_until

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {name: f"{name}-secret" for name in ("admin", "without", "denied", "allowed")}
SUPER = "admin"
ANONYMOUS = "ANONYMOUS"
PRINCIPALS = (ANONYMOUS, "without", "denied", "allowed", SUPER)


def settings(client: int, open_client: int, controller: int, open_controller: int) -> dict[str, str]:
    """Each type of listener twice: with SASL, and without authentication."""
    jaas = plain_jaas(USERS, SUPER)
    listeners = {
        "CLIENTS": client,
        "OPEN": open_client,
        "CONTROLLER": controller,
        "OPENCONTROL": open_controller,
    }
    protocols = {name: "PLAINTEXT" if name.startswith("OPEN") else "SASL_PLAINTEXT" for name in listeners}
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
        "advertised.listeners": f"CLIENTS://127.0.0.1:{client},OPEN://127.0.0.1:{open_client}",
        "listener.security.protocol.map": ",".join(f"{name}:{value}" for name, value in protocols.items()),
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER,OPENCONTROL",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": STANDARD,
        "delegation.token.secret.key": "the key of the tokens",
        "super.users": f"User:{SUPER}",
        "transaction.two.phase.commit.enable": "true",
    }


class AuthorizedBroker:
    """The listeners of a broker with `settings`, and the state that requests of the table need."""

    def __init__(self, ports: tuple[int, int, int, int]) -> None:
        client, open_client, controller, open_controller = ports
        self._ports = {
            (ListenerType.BROKER, False): client,
            (ListenerType.BROKER, True): open_client,
            (ListenerType.CONTROLLER, False): controller,
            (ListenerType.CONTROLLER, True): open_controller,
        }
        self.world = World()

    def port(self, listener: ListenerType) -> int:
        """The port on which clients authenticate."""
        return self._ports[listener, False]

    def connect(self, user: str, listener: ListenerType = ListenerType.BROKER) -> SaslClient:
        anonymous = user == ANONYMOUS
        client = SaslClient(f"127.0.0.1:{self._ports[listener, anonymous]}")
        if not anonymous:
            response = client.login(user, USERS[user])
            assert not isinstance(response, Closed)
            assert response.error_code == 0, response
        return client

    def prepare(self) -> None:
        """Create what exists, and let the user `denied` do everything that is not denied."""
        with self.connect(SUPER) as admin:
            wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
            created: Any = admin.ask(
                CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7, CreateTopicsResponse
            )
            assert created.topics[0].error_code == 0, created
            self.world.topic_id = created.topics[0].topic_id
            topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
            listing = build(ListOffsetsRequest, {"replica_id": -1, "topics": topics})
            committed = {"partition_index": 0, "committed_offset": 1}
            commit = build(
                OffsetCommitRequest,
                {
                    "group_id": GROUP,
                    "generation_id_or_member_epoch": -1,
                    "topics": [{"name": TOPIC, "partitions": [committed]}],
                },
            )

            def ready() -> bool:
                listed: Any = admin.ask(listing, 5, ListOffsetsResponse)
                return listed.topics[0].partitions[0].error_code == 0

            wait_until(ready, "the leader of the topic")
            self._until_no_error(admin, commit, 8, OffsetCommitResponse, "topics.0.partitions.0.error_code")
            self._begin(admin)
        everything = [
            (Operation.ALL, kind, CLUSTER if kind is ResourceType.CLUSTER else "*")
            for kind in (
                ResourceType.TOPIC,
                ResourceType.GROUP,
                ResourceType.CLUSTER,
                ResourceType.TRANSACTIONAL_ID,
            )
        ]
        self.add(everything, "denied")

    def _begin(self, admin: SaslClient) -> None:
        request = InitProducerIdRequest(transactional_id=TXN, transaction_timeout_ms=600_000)

        def begun() -> bool:
            response: Any = admin.ask(request, 4, InitProducerIdResponse)
            self.world.producer_id, self.world.producer_epoch = response.producer_id, response.producer_epoch
            return response.error_code == 0

        wait_until(begun, "a producer id")

    @staticmethod
    def _until_no_error(admin: SaslClient, request: Any, version: int, response: Any, path: str) -> None:
        from tests.support.rights import value_at

        def done() -> bool:
            # The internal topic is created by a request for its coordinator.
            from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

            for kind in (0, 1):
                key = GROUP if kind == 0 else TXN
                admin.ask(
                    FindCoordinatorRequest(coordinator_keys=[key], key_type=kind), 4, FindCoordinatorResponse
                )
            return value_at(admin.ask(request, version, response), path) == 0

        wait_until(done, "the coordinators")

    # ACL entries

    def add(
        self,
        rights: Iterable[Right],
        user: str,
        permission: Permission = Permission.ALLOW,
        pattern: PatternType = PatternType.LITERAL,
    ) -> None:
        entries = [_entry(right, user, permission, pattern) for right in rights]
        with self.connect(SUPER) as admin:
            response: Any = admin.ask(CreateAclsRequest(creations=entries), 3, CreateAclsResponse)
            assert [each.error_code for each in response.results] == [0] * len(entries), response
            self._settled(admin, entries, 1)

    def remove(
        self,
        rights: Iterable[Right],
        user: str,
        permission: Permission = Permission.ALLOW,
        pattern: PatternType = PatternType.LITERAL,
    ) -> None:
        entries = [_entry(right, user, permission, pattern) for right in rights]
        with self.connect(SUPER) as admin:
            filters = [DeleteAclsFilter(**_selecting(each)) for each in entries]
            response: Any = admin.ask(DeleteAclsRequest(filters=filters), 3, DeleteAclsResponse)
            assert not any(each.error_code for each in response.filter_results), response
            self._settled(admin, entries, 0)

    @staticmethod
    def _settled(admin: SaslClient, entries: list[AclCreation], count: int) -> None:
        """Wait until the broker has applied the change."""

        def found(entry: AclCreation) -> int:
            response: Any = admin.ask(DescribeAclsRequest(**_selecting(entry)), 3, DescribeAclsResponse)
            return sum(len(each.acls) for each in response.resources)

        wait_until(lambda: all(found(each) == count for each in entries), "the entries")

    @contextmanager
    def entries(
        self, rights: Iterable[Right], user: str, permission: Permission = Permission.ALLOW
    ) -> Iterator[None]:
        """Entries while the block runs."""
        rights = list(dict.fromkeys(rights))
        if rights:
            self.add(rights, user, permission)
        try:
            yield
        finally:
            if rights:
                self.remove(rights, user, permission)


def _entry(right: Right, user: str, permission: Permission, pattern: PatternType) -> AclCreation:
    operation, kind, name = right
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=permission,
    )


def _selecting(entry: AclCreation) -> dict[str, Any]:
    return {
        "resource_type_filter": entry.resource_type,
        "resource_name_filter": entry.resource_name,
        "pattern_type_filter": entry.resource_pattern_type,
        "principal_filter": entry.principal,
        "host_filter": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission_type,
    }
