"""SCRAM users: administration with confluent-kafka, on one broker and on three, and the first users of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.error import KafkaException

from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from ottla.local.cluster import LocalCluster
from tests.support.clients import fresh

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SECRET = "hunter2-canary"


class WithUsers(BrokerProcess):
    """A broker that is started with further arguments."""

    more: tuple[str, ...] = ()

    def command(self) -> list[str]:
        return [*super().command(), *self.more]


def upsert(admin: AdminClient, user: str, mechanism: ScramMechanism, iterations: int = 4096) -> None:
    info = ScramCredentialInfo(mechanism, iterations)
    change = UserScramCredentialUpsertion(user, info, SECRET.encode())
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result()


def describe(admin: AdminClient, user: str) -> list[tuple[ScramMechanism, int]]:
    described = admin.describe_user_scram_credentials([user])[user].result()
    return [(each.mechanism, each.iterations) for each in described.scram_credential_infos]


def test_users_are_stored_described_and_deleted(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    user = fresh("user")
    upsert(admin, user, SHA_256)
    upsert(admin, user, SHA_512, 8192)
    assert describe(admin, user) == [(SHA_256, 4096), (SHA_512, 8192)]
    assert user in admin.describe_user_scram_credentials().result()
    deletion = UserScramCredentialDeletion(user, SHA_256)
    admin.alter_user_scram_credentials([deletion])[user].result()
    assert describe(admin, user) == [(SHA_512, 8192)]
    with pytest.raises(KafkaException, match="RESOURCE_NOT_FOUND"):
        admin.alter_user_scram_credentials([deletion])[user].result()
    with pytest.raises(KafkaException, match="UNACCEPTABLE_CREDENTIAL"):
        upsert(admin, user, SHA_256, 20_000)


def test_any_broker_of_a_cluster_forwards(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 3) as cluster:
        for node in range(3):
            admin = AdminClient({"bootstrap.servers": cluster.address(node)})
            upsert(admin, f"user-{node}", SHA_256)
            assert describe(admin, f"user-{node}") == [(SHA_256, 4096)]


@pytest.mark.parametrize("kind", ["argument", "file"])
def test_first_users_of_a_cluster(tmp_path: Path, kind: str) -> None:
    process = WithUsers(tmp_path / "data")
    text = f"SCRAM-SHA-512=[name=alice,password={SECRET},iterations=8192]"
    if kind == "file":
        (tmp_path / "users").write_text(f"# first users\n{text}\n")
        process.more = ("--add-scram-file", str(tmp_path / "users"))
    else:
        process.more = ("--add-scram", text, "--add-scram=SCRAM-SHA-256=[name=bob,password=other]")
    with process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        assert describe(admin, "alice") == [(SHA_512, 8192)]
        shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert SECRET.encode() not in shown
    stored = b"".join(path.read_bytes() for path in process.data.rglob("*") if path.is_file())
    assert SECRET.encode() not in stored
    assert SECRET not in process.output()


def test_the_option_has_no_effect_on_an_existing_cluster(tmp_path: Path) -> None:
    process = WithUsers(tmp_path / "data")
    with process:
        pass
    process.more = ("--add-scram", f"SCRAM-SHA-512=[name=alice,password={SECRET}]")
    with process:
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        assert admin.describe_user_scram_credentials().result() == {}
        assert "the cluster exists" in process.output()


def test_a_bad_user_is_refused(tmp_path: Path) -> None:
    process = WithUsers(tmp_path / "data")
    process.more = ("--add-scram", f"SCRAM-SHA-1=[name=alice,password={SECRET}]")
    with pytest.raises(BrokerNotStarted, match="unknown mechanism") as refusal:
        process.start()
    assert SECRET not in str(refusal.value)
