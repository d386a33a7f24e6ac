"""What a broker is started with: files, environment, addresses, directories; and what it refuses to start with."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, DescribeClusterResult, ResourceType
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as KafkaTopicPartition

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, Reader, create_topic, read_all
from tests.support.settings import describe, segment_files

COMMAND = [sys.executable, "-m", "ottla.cli.main", "broker"]
QUIET_ENV = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}


def try_to_start(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """For starts that are expected to fail."""
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**QUIET_ENV, **(env or {})},
    )


@contextmanager
def started(
    *arguments: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A broker by its command line, and the line it says when it is ready; ended at the end."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**QUIET_ENV, **(env or {})},
        cwd=cwd,
    )
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if not said:
            raise AssertionError(process.communicate()[1])
        yield said, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)


def described(bootstrap: str) -> DescribeClusterResult:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return admin.describe_cluster().result(30)


# --- refusals


@pytest.mark.parametrize(
    ("setting", "texts"),
    [
        ("num.partitions=x", ["num.partitions", "'x'", "whole number", "at least 1"]),
        ("compression.type=brotli", ["compression.type", "brotli", "zstd", "producer"]),
        ("log.retention.ms=0", ["log.retention.ms", "at least 1", "-1"]),
        ("authorizer.class.name=org.example.Doorman", ["authorizer.class.name", "cannot"]),
        ("listeners=SASL_PLAINTEXT://127.0.0.1:0", ["gssapi.sasl.jaas.config", "sasl.enabled.mechanisms"]),
        ("listeners=SSL://127.0.0.1:0", ["listener SSL", "ssl.keystore.location", "missing"]),
        ("listeners=PLAINTEXT://127.0.0.2.example:9092", ["127.0.0.2.example", "authentication"]),
        ("listeners=PLAINTEXT://192.0.2.1:9092", ["192.0.2.1", "ottla.allow.insecure.listeners"]),
        ("controller.quorum.voters=3@a:1,2@b:1", ["controller.quorum.voters", "this node 1"]),
        ("no-equals-sign", ["--override", "key=value"]),
    ],
)
def test_a_bad_setting_is_refused_with_its_name_and_what_is_allowed(
    tmp_path: Path, setting: str, texts: list[str]
) -> None:
    data = tmp_path / "data"
    result = try_to_start("--data", str(data), "--override", setting)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    for text in texts:
        assert text in result.stderr
    if "cannot listen" not in texts:
        assert not data.exists(), "nothing is written before the settings are known to be good"


def test_a_missing_file_and_a_wrong_option_are_refused(tmp_path: Path) -> None:
    missing = try_to_start("--config", str(tmp_path / "none.properties"))
    assert missing.returncode == 1
    assert "none.properties" in missing.stderr
    wrong = try_to_start("--no-such-option")
    assert wrong.returncode == 2
    assert "no-such-option" in wrong.stderr


def test_a_data_directory_of_another_cluster_or_node_is_refused(make_broker: MakeBroker) -> None:
    broker = make_broker()
    broker.stop()
    where = ("--data", str(broker.data), "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    before = (broker.data / "meta.properties").read_bytes()
    cluster = try_to_start(*where, env={"CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"})
    assert cluster.returncode == 1
    assert "4L6g3nShT-eMCtK--X86sw" in cluster.stderr
    node = try_to_start(*where, "--override", "node.id=2")
    assert node.returncode == 1
    assert "belongs to node 1" in node.stderr
    assert (broker.data / "meta.properties").read_bytes() == before


def test_a_metadata_log_that_lost_its_identity_is_refused_and_left_alone(make_broker: MakeBroker) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, "kept")
    broker.stop()
    identity = broker.data / "meta.properties"
    kept = identity.read_bytes()
    identity.unlink()
    result = try_to_start(*broker.command()[len(COMMAND) :])
    assert result.returncode == 1
    assert "meta.properties" in result.stderr
    assert not identity.exists()
    identity.write_bytes(kept)
    broker.start()
    assert "kept" in AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics


def test_a_port_in_use_is_named_and_the_directory_given_back(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker()
    other = tmp_path / "other"
    taken = ("--data", str(other), "--override", f"listeners=PLAINTEXT://{broker.bootstrap}")
    result = try_to_start(*taken)
    assert result.returncode == 1
    assert f"cannot listen on {broker.bootstrap}" in result.stderr
    broker.stop()
    with started(*taken) as (said, _):
        assert broker.bootstrap in said


# --- where settings come from


def test_the_properties_file_of_the_quick_start_is_accepted(tmp_path: Path) -> None:
    """The settings of Kafka's own config/server.properties, on ports of ours."""
    port = free_port()
    file = tmp_path / "server.properties"
    file.write_text(
        f"""# roles
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs={tmp_path}/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
#log.flush.interval.messages=10000
log.retention.hours=168
#log.retention.bytes=1073741824
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
    )
    with started("--config", str(file)) as (said, process):
        assert said.split()[:2] == ["ready", f"PLAINTEXT://localhost:{port}"]
        bootstrap = f"localhost:{port}"
        producer = KafkaProducer(bootstrap_servers=bootstrap)
        producer.send("quickstart-events", b"This is my first event").get(30)
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=30_000)
        place = KafkaTopicPartition("quickstart-events", 0)
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        assert next(consumer).value == b"This is my first event"
        consumer.close()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0
    assert "unknown setting" not in errors
    assert (tmp_path / "kraft-combined-logs" / "quickstart-events-0").is_dir()


def test_the_environment_overrides_the_file_and_options_override_both(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"""node.id=1
process.roles=broker,controller
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:0
log.dirs={tmp_path}/data
num.partitions=2
log.retention.hours=5
message.max.bytes=1000
"""
    )
    env = {
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_LOG_RETENTION_HOURS": "6",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    with started("--config", str(file), "--override", "num.partitions=4", env=env) as (said, process):
        bootstrap = said.split("//")[1].strip()
        values = {name: entry.value for name, entry in describe(bootstrap, ResourceType.BROKER, "1").items()}
        cluster = described(bootstrap)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert values["num.partitions"] == "4"
    assert values["log.retention.hours"] == "6"
    assert values["message.max.bytes"] == "1000"
    assert cluster.cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert "heap.opts" not in errors


def test_odd_names_are_accepted_and_talked_about(tmp_path: Path) -> None:
    arguments = ["--data", str(tmp_path / "data"), "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
    arguments += ["--override", "num.partitons=3", "--override", "num.io.threads=16"]
    with started(*arguments) as (_, process):
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert "unknown setting 'num.partitons'; did you mean num.partitions?" in errors
    assert "without effect in this release: num.io.threads" in errors


# --- addresses and directories


def test_each_listener_advertises_its_own_address(tmp_path: Path) -> None:
    arguments = ["--data", str(tmp_path / "data")]
    arguments += ["--override", "listeners=FOUR://127.0.0.1:0,SIX://[::1]:0,NAMED://localhost:0"]
    arguments += ["--override", "listener.security.protocol.map=FOUR:PLAINTEXT,SIX:PLAINTEXT,NAMED:PLAINTEXT"]
    arguments += ["--override", "inter.broker.listener.name=FOUR"]
    with started(*arguments) as (said, _):
        addresses = dict(each.split("://") for each in said.split()[1:4])
        for address in addresses.values():
            nodes = described(address).nodes
            host, port = address.rsplit(":", 1)
            assert [(node.host, node.port) for node in nodes] == [(host.strip("[]"), int(port))]
        create_topic(addresses["SIX"], "over-six")
        Publisher(addresses["SIX"]).send("over-six", [{"value": b"v"}])
        assert [one.value() for one in read_all(addresses["FOUR"], "over-six", 0)] == [b"v"]


def test_clients_receive_the_advertised_listeners(make_broker: MakeBroker) -> None:
    port = free_port()
    broker = make_broker({"advertised.listeners": f"PLAINTEXT://localhost:{port}"}, port=port)
    nodes = described(broker.bootstrap).nodes
    assert [(node.host, node.port) for node in nodes] == [("localhost", port)]


def test_partitions_are_spread_over_several_log_dirs_and_found_again(
    make_broker: MakeBroker, tmp_path: Path
) -> None:
    places = [tmp_path / name for name in ("one", "two", "three")]
    broker = make_broker({"log.dirs": ",".join(map(str, places))})
    create_topic(broker.bootstrap, "spread", partitions=6)
    publisher = Publisher(broker.bootstrap)
    publisher.send("spread", [{"value": b"%d" % number, "partition": number} for number in range(6)])
    assert [len(list(place.glob("spread-*"))) for place in places] == [2, 2, 2]
    broker.stop()
    assert all((place / ".kafka_cleanshutdown").exists() for place in places)
    identities = [(place / "meta.properties").read_text() for place in places]
    assert len(set(identities)) == 3
    broker.start()
    with Reader(broker.bootstrap, "spread", range(6)) as reader:
        assert sorted(one.value() for one in reader.take(6)) == [b"%d" % number for number in range(6)]
    assert [(place / "meta.properties").read_text() for place in places] == identities


# --- stopping


def spoil_second_batch(folder: Path) -> None:
    """Change a byte of its records, so that the CRC of the batch is wrong."""
    (file,) = segment_files(folder)
    data = bytearray(file.read_bytes())
    second = 12 + struct.unpack_from(">i", data, 8)[0]
    data[second + 65] ^= 0xFF
    file.write_bytes(data)


def end_of(broker: BrokerProcess, topic: str) -> int:
    with Reader(broker.bootstrap, topic, [0]) as reader:
        return reader.end(0, topic)


def test_after_a_clean_stop_nothing_is_read_again(make_broker: MakeBroker, tmp_path: Path) -> None:
    """A damaged batch goes unnoticed by a start that does not read it; a start that must read cuts it off."""
    broker = make_broker()
    create_topic(broker.bootstrap, "trusted")
    publisher = Publisher(broker.bootstrap)
    for number in range(5):
        publisher.send("trusted", [{"value": b"%d" % number}])
    assert broker.stop() == 0
    assert (broker.data / ".kafka_cleanshutdown").exists()
    spoil_second_batch(broker.data / "trusted-0")
    shutil.copytree(broker.data, tmp_path / "unclean")
    broker.start()
    assert not (broker.data / ".kafka_cleanshutdown").exists()
    assert end_of(broker, "trusted") == 5
    (tmp_path / "unclean" / ".kafka_cleanshutdown").unlink()
    (tmp_path / "unclean" / "recovery-point-offset-checkpoint").unlink()
    unclean = make_broker(name="unclean")
    assert end_of(unclean, "trusted") == 1


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_both_signals_stop_cleanly(tmp_path: Path, how: signal.Signals) -> None:
    arguments = ("--data", str(tmp_path / "data"), "--override", "listeners=PLAINTEXT://127.0.0.1:0")
    with started(*arguments) as (_, process):
        process.send_signal(how)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()
