"""ACL entries: administration with confluent-kafka, on one broker and on three, and what they allow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.error import KafkaException

from ottla.local.broker_process import BrokerProcess
from ottla.local.cluster import LocalCluster
from tests.support.waiting import wait_until

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER = {"authorizer.class.name": STANDARD, "super.users": "User:ANONYMOUS"}
ALLOWED_BY_DEFAULT = {"authorizer.class.name": STANDARD, "allow.everyone.if.no.acl.found": "true"}


def binding(
    name: str,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    operation: AclOperation = AclOperation.READ,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    kind: ResourceType = ResourceType.TOPIC,
    principal: str = "User:alice",
) -> AclBinding:
    return AclBinding(kind, name, pattern, principal, "*", operation, permission)


def selecting(
    name: str | None = None, pattern: ResourcePatternType = ResourcePatternType.ANY
) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, name, pattern, None, None, AclOperation.ANY, AclPermissionType.ANY
    )


def create(admin: AdminClient, *bindings: AclBinding) -> None:
    for future in admin.create_acls(list(bindings)).values():
        future.result()


def describe(admin: AdminClient, wanted: AclBindingFilter) -> set[tuple[str, str, str]]:
    found = admin.describe_acls(wanted).result()
    return {(each.name, each.resource_pattern_type.name, each.operation.name) for each in found}


def delete(admin: AdminClient, wanted: AclBindingFilter) -> int:
    return len(admin.delete_acls([wanted])[wanted].result())


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("acls") / "data", SUPER) as process:
        yield process


def test_entries_are_created_described_and_deleted(secured: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    create(
        admin,
        binding("orders"),
        binding("orders", operation=AclOperation.WRITE),
        binding("ord", ResourcePatternType.PREFIXED),
        binding("other"),
    )
    create(admin, binding("orders"))
    assert describe(admin, selecting("orders")) == {
        ("orders", "LITERAL", "READ"),
        ("orders", "LITERAL", "WRITE"),
    }
    matching = describe(admin, selecting("orders", ResourcePatternType.MATCH))
    assert matching - describe(admin, selecting("orders")) == {("ord", "PREFIXED", "READ")}
    assert delete(admin, selecting("orders", ResourcePatternType.MATCH)) == 3
    assert describe(admin, selecting()) == {("other", "LITERAL", "READ")}
    assert delete(admin, selecting()) == 1


def test_entries_survive_a_restart(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data", SUPER) as process:
        create(AdminClient({"bootstrap.servers": process.bootstrap}), binding("orders"))
        process.kill()
        process.start()
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        assert describe(admin, selecting()) == {("orders", "LITERAL", "READ")}


def test_an_entry_that_is_not_valid_is_refused(secured: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": secured.bootstrap})
    with pytest.raises(KafkaException, match="INVALID_REQUEST"):
        create(admin, binding("not-the-cluster", kind=ResourceType.BROKER))


def test_without_an_authorizer_there_are_no_entries(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    with pytest.raises(KafkaException, match="SECURITY_DISABLED"):
        create(admin, binding("orders"))
    with pytest.raises(KafkaException, match="SECURITY_DISABLED"):
        delete(admin, selecting())


def test_any_broker_of_a_cluster_forwards_and_follows(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3, config=SUPER) as cluster:
        admins = [AdminClient({"bootstrap.servers": cluster.address(node)}) for node in range(3)]
        for node, admin in enumerate(admins):
            create(admin, binding(f"topic-{node}"))
        for admin in admins:
            wait_until(lambda admin=admin: len(describe(admin, selecting())) == 3, "all entries")
        assert delete(admins[1], selecting()) == 3
        for admin in admins:
            wait_until(lambda admin=admin: not describe(admin, selecting()), "no entries")


def test_an_entry_for_the_cluster_decides_who_manages_entries(tmp_path: Path) -> None:
    """An entry for the resource ends what is allowed without entries."""
    with BrokerProcess(tmp_path / "data", ALLOWED_BY_DEFAULT) as process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        describing = binding(
            "kafka-cluster",
            operation=AclOperation.DESCRIBE,
            kind=ResourceType.BROKER,
            principal="User:ANONYMOUS",
        )
        create(admin, describing)
        assert describe(admin, selecting()) == {("kafka-cluster", "LITERAL", "DESCRIBE")}
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            create(admin, binding("orders"))
        with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
            delete(admin, selecting())
        log = process.output()
        assert "kafka.authorizer.logger" in log
        (line, *_) = [each for each in log.splitlines() if "denied" in each]
        for part in ("User:ANONYMOUS", "ALTER", "Cluster:LITERAL:kafka-cluster", "CreateAcls", "127.0.0.1"):
            assert part in line
