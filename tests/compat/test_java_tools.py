"""The command line tools of Apache Kafka 4.3.1 work on Ottla, unmodified."""

from __future__ import annotations

import base64
import json
import re
import subprocess

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.records.partitioner import partition_for_key
from tests.compat.java_tools import JavaTools, java_command
from tests.conftest import MakeBroker
from tests.mission.test_partition_choice import KEYS, PARTITIONS
from tests.support.clients import Publisher, create_topic, fresh, read_all

pytestmark = pytest.mark.compat


@pytest.fixture
def at(broker: BrokerProcess) -> tuple[str, str]:
    return ("--bootstrap-server", broker.bootstrap)


def test_kafka_topics_creates_lists_describes_alters_and_deletes(
    tools: JavaTools, at: tuple[str, str]
) -> None:
    topic = fresh("tool-topics")
    made = tools.good(
        "kafka-topics",
        *at,
        "--create",
        "--topic",
        topic,
        "--partitions",
        "3",
        "--config",
        "retention.ms=86400000",
    )
    assert f"Created topic {topic}." in made.out
    assert topic in tools.good("kafka-topics", *at, "--list").lines
    described = tools.good("kafka-topics", *at, "--describe", "--topic", topic)
    assert re.search(r"PartitionCount: 3\s+ReplicationFactor: 1", described.out)
    assert "retention.ms=86400000" in described.out
    assert len(re.findall(r"Leader: \d+", described.out)) == 3
    tools.good("kafka-topics", *at, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in tools.good("kafka-topics", *at, "--describe", "--topic", topic).out
    again = tools.run("kafka-topics", *at, "--create", "--topic", topic)
    assert again.code == 1
    assert "exists" in again.out + again.err
    tools.good("kafka-topics", *at, "--create", "--topic", topic, "--if-not-exists")
    unhealthy = tools.good("kafka-topics", *at, "--describe", "--unavailable-partitions")
    assert topic not in unhealthy.out
    assert topic in tools.good("kafka-topics", *at, "--describe", "--topics-with-overrides").out
    tools.good("kafka-topics", *at, "--delete", "--topic", topic)
    assert topic not in tools.good("kafka-topics", *at, "--list").lines


def test_kafka_topics_is_refused_as_by_kafka(tools: JavaTools, at: tuple[str, str]) -> None:
    for arguments, expected in (
        (["--partitions", "0"], "partition"),
        (["--replication-factor", "3"], "broker"),
        (["--config", "retention.ms=soon"], "retention.ms"),
        (["--config", "no.such.setting=1"], "no.such.setting"),
    ):
        refused = tools.run("kafka-topics", *at, "--create", "--topic", fresh("refused"), *arguments)
        assert refused.code == 1, arguments
        assert expected in (refused.out + refused.err).lower()


def test_kafka_configs_describes_and_alters(
    tools: JavaTools, broker: BrokerProcess, at: tuple[str, str]
) -> None:
    topic = create_topic(broker.bootstrap, fresh("tool-configs"))
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tools.good(
        "kafka-configs",
        *at,
        *entity,
        "--alter",
        "--add-config",
        "retention.ms=1000,cleanup.policy=[compact,delete]",
    )
    described = tools.good("kafka-configs", *at, *entity, "--describe").out
    assert "retention.ms=1000" in described
    assert "cleanup.policy=compact,delete" in described
    everything = tools.good("kafka-configs", *at, *entity, "--describe", "--all").out
    assert "min.insync.replicas=1" in everything
    assert "DEFAULT_CONFIG:log.segment.bytes=1073741824" in everything
    tools.good("kafka-configs", *at, *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=1000" not in tools.good("kafka-configs", *at, *entity, "--describe").out
    refused = tools.run("kafka-configs", *at, *entity, "--alter", "--add-config", "retention.ms=soon")
    assert refused.code == 1


def test_kafka_configs_of_brokers(tools: JavaTools, at: tuple[str, str]) -> None:
    default = ("--entity-type", "brokers", "--entity-default")
    tools.good("kafka-configs", *at, *default, "--alter", "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in tools.good("kafka-configs", *at, *default, "--describe").out
    everything = tools.good("kafka-configs", *at, "--entity-type", "brokers", "--describe", "--all").out
    assert "DEFAULT_CONFIG:log.cleaner.threads=1" in everything
    tools.good("kafka-configs", *at, *default, "--alter", "--delete-config", "log.cleaner.threads")


def test_console_producer_offsets_and_delete_records(
    tools: JavaTools, broker: BrokerProcess, at: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic = create_topic(broker.bootstrap, fresh("tool-produce"))
    events = ["Canada vs USA:Foul", "Canada vs USA:Free Throw", "Canada vs USA:Score 39-46"]
    produced = tools.alone(
        "kafka-console-producer",
        *at,
        "--topic",
        topic,
        "--reader-property",
        "parse.key=true",
        "--reader-property",
        "key.separator=:",
        stdin="\n".join(events) + "\n",
    )
    assert produced.code == 0, produced.err
    messages = read_all(broker.bootstrap, topic, 0)
    assert [f"{m.key().decode()}:{m.value().decode()}" for m in messages] == events

    def offsets(when: str) -> str:
        return tools.good("kafka-get-offsets", *at, "--topic", topic, "--time", when).out.strip()

    assert (offsets("earliest"), offsets("latest")) == (f"{topic}:0:0", f"{topic}:0:3")
    assert offsets("max-timestamp").startswith(f"{topic}:0:")
    assert offsets(str(messages[1].timestamp()[1])).startswith(f"{topic}:0:")
    plan = tmp_path_factory.mktemp("plan") / "plan.json"
    part = {"topic": topic, "partition": 0, "offset": 2}
    plan.write_text(json.dumps({"partitions": [part], "version": 1}))
    done = tools.good("kafka-delete-records", *at, "--offset-json-file", str(plan))
    assert "low_watermark: 2" in done.out
    assert offsets("earliest") == f"{topic}:0:2"
    assert [m.value() for m in read_all(broker.bootstrap, topic, 0)] == [b"Score 39-46"]


def test_kafka_log_dirs(tools: JavaTools, broker: BrokerProcess, at: tuple[str, str]) -> None:
    topic = create_topic(broker.bootstrap, fresh("tool-log-dirs"), 2)
    Publisher(broker.bootstrap).send(topic, [{"value": b"x" * 1000, "partition": 0}])
    ran = tools.good("kafka-log-dirs", *at, "--describe", "--topic-list", topic)
    answer = json.loads(next(line for line in ran.lines if line.startswith("{")))
    (node,) = answer["brokers"]
    (directory,) = node["logDirs"]
    assert directory["error"] is None
    assert directory["logDir"] == str(broker.data)
    sizes = {part["partition"]: part["size"] for part in directory["partitions"]}
    assert sizes[f"{topic}-0"] > 1000
    assert sizes[f"{topic}-1"] == 0


def test_kafka_metadata_quorum(tools: JavaTools, at: tuple[str, str]) -> None:
    status = tools.good("kafka-metadata-quorum", *at, "describe", "--status").out
    assert re.search(r"LeaderId:\s+\d+", status)
    assert re.search(r"HighWatermark:\s+[1-9]\d*", status)
    assert re.search(r"MaxFollowerLag:\s+0", status)
    replication = tools.good("kafka-metadata-quorum", *at, "describe", "--replication").out
    assert "Leader" in replication


def test_features_versions_and_cluster_id(tools: JavaTools, at: tuple[str, str]) -> None:
    features = tools.good("kafka-features", *at, "describe").out
    assert re.search(
        r"metadata\.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: 4\.3-IV0", features
    )
    versions = tools.good("kafka-broker-api-versions", *at).out
    assert re.search(r"Produce\(0\): 0 to 13", versions)
    assert re.search(r"Cluster ID: \S{22}", tools.good("kafka-cluster", "cluster-id", *at).out)


def test_dump_log_reads_segments_and_indexes(tools: JavaTools, make_broker: MakeBroker) -> None:
    broker = make_broker()
    topic = create_topic(
        broker.bootstrap, "dumped", 1, {"segment.bytes": str(1 << 20), "index.interval.bytes": "4096"}
    )
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [{"key": str(n), "value": f"{codec} {n} ".encode() * 40} for n in range(3_000)]
        settings = {"compression.type": codec, "linger.ms": 5, "batch.size": 20_000}
        Publisher(broker.bootstrap, settings).send(topic, records)
    broker.stop()
    folder = broker.data / f"{topic}-0"
    segments = sorted(folder.glob("*.log"))
    assert len(segments) > 1
    for kind in ("log", "index", "timeindex"):
        for file in sorted(folder.glob(f"*.{kind}")):
            ran = tools.good(
                "kafka-dump-log", "--deep-iteration", "--index-sanity-check", "--files", str(file)
            )
            assert "Found" not in ran.out, ran.out[-2000:]
            assert "passed sanity check" in ran.out or kind == "log"
    dumped = ""
    for file in segments:
        dumped += tools.good(
            "kafka-dump-log", "--deep-iteration", "--print-data-log", "--files", str(file)
        ).out
    assert len(re.findall(r"^\| offset: ", dumped, re.MULTILINE)) == 15_000
    assert "isvalid: false" not in dumped
    for codec in ("gzip", "snappy", "zstd"):  # librdkafka sends these batches plain when asked for lz4
        assert f"compresscodec: {codec}" in dumped
    for snapshot in folder.glob("*.snapshot"):
        tools.good("kafka-dump-log", "--files", str(snapshot))


def test_dump_log_reads_the_metadata_log(tools: JavaTools, make_broker: MakeBroker) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, "in-metadata", 2, {"retention.ms": "1234"})
    broker.stop()
    (log,) = sorted((broker.data / "__cluster_metadata-0").glob("*.log"))
    dumped = tools.good("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log)).out
    assert '"type":"TOPIC_RECORD"' in dumped
    assert '"name":"in-metadata"' in dumped
    assert dumped.count('"type":"PARTITION_RECORD"') >= 2
    assert '"type":"CONFIG_RECORD"' in dumped
    assert '"type":"REGISTER_BROKER_RECORD"' in dumped
    assert '"type":"FEATURE_LEVEL_RECORD"' in dumped or list(log.parent.glob("*.checkpoint"))


def test_B1_the_java_client_chooses_the_same_partition(broker: BrokerProcess, kafka_jars: None) -> None:
    topic = create_topic(broker.bootstrap, fresh("java-keys"), PARTITIONS)
    keys = "\n".join(base64.b64encode(key).decode() for key in KEYS) + "\n"
    ran = subprocess.run(
        [*java_command("Partitions"), broker.bootstrap, topic],
        input=keys,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    chosen = {base64.b64decode(key): int(part) for key, part in map(str.split, ran.stdout.splitlines())}
    assert chosen == {key: partition_for_key(key, PARTITIONS) for key in KEYS}
