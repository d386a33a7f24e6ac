"""What a node is started with: sources and their precedence, names, refusals, notices."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import LocalError
from ottla.broker.net.listeners import ListenerType
from ottla.config import BROKER_KEYS, ConfigRefused
from ottla.node.settings.config import QUICK_START, Level, NodeConfig, assemble, from_environment, load
from ottla.node.settings.quorum_config import Role

# The entries of the quick-start file that Apache Kafka 4.3 ships, as a user would bring them along.
QUICK_START_FILE = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,\\
  SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/var/lib/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def _texts(config: NodeConfig, level: Level) -> list[str]:
    return [notice.text for notice in config.notices if notice.level is level]


def test_nothing_given_is_one_node_on_this_machine_only() -> None:
    config = assemble(None, {})
    assert (config.node_id, config.cluster_id, config.rack) == (1, None, None)
    assert [(x.name, x.host, x.port, x.advertised_host) for x in config.listeners] == [
        ("PLAINTEXT", "127.0.0.1", 9092, "127.0.0.1")
    ]
    assert [x.name for x in config.controller_listeners] == ["CONTROLLER"]
    assert config.notices == ()


def test_the_data_directory_is_that_of_the_metadata_too() -> None:
    config = assemble(None, {}, data="/srv/ottla")
    assert config.log_dirs == ("/srv/ottla",)
    assert config.metadata_log_dir == "/srv/ottla"
    config = assemble({"log.dirs": "/a,/b", "metadata.log.dir": "/m"}, {})
    assert (config.log_dirs, config.metadata_log_dir) == (("/a", "/b"), "/m")
    assert assemble({"log.dir": "/a"}, {}).log_dirs == ("/a",)


def test_kafkas_quick_start_file_is_taken_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(QUICK_START_FILE)
    config = load(str(path), {})
    (listener,) = config.listeners
    assert (listener.host, listener.port) == ("127.0.0.1", 9092)
    assert (listener.advertised_host, listener.advertised_port) == ("localhost", 9092)
    warnings = _texts(config, Level.WARNING)
    assert ["bound to 127.0.0.1" in each for each in warnings] == [True, True]  # clients and controllers
    (idle,) = _texts(config, Level.INFO)
    assert "num.network.threads" in idle
    assert "log.retention.hours" not in idle


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"no\.properties"):
        load(str(tmp_path / "no.properties"), {})


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\x00\x01\xff")
    with pytest.raises(LocalError, match="data: it is not a text file"):
        load(str(path), {})


def test_a_file_in_latin_1_is_read(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("broker.rack=Zürich\n".encode("latin-1"))
    assert load(str(path), {}).rack == "Zürich"


def test_precedence_file_environment_data_override() -> None:
    file = {"num.partitions": "2", "log.dirs": "/file", "broker.rack": "file"}
    env = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_DIRS": "/env"}
    assert assemble(file, {}).broker.int("num.partitions") == 2
    config = assemble(file, env, data="/data")
    assert (config.broker.int("num.partitions"), config.log_dirs, config.rack) == (3, ("/data",), "file")
    config = assemble(file, env, ["num.partitions = 4", "log.dirs=/override"], data="/data")
    assert (config.broker.int("num.partitions"), config.log_dirs) == (4, ("/override",))


def test_environment_names() -> None:
    env = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://a:1",
        "KAFKA_A__B___C_D": "x",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "KAFKA_OPTS": "",
        "KAFKA_JMX_PORT": "9999",
        "KAFKA_BOOTSTRAP_SERVERS": "a:1",
        "PATH": "/bin",
    }
    assert from_environment(env) == {"advertised.listeners": "PLAINTEXT://a:1", "a_b-c.d": "x"}


def test_every_setting_can_come_from_the_environment() -> None:
    for name in BROKER_KEYS:
        variable = "KAFKA_" + name.replace("_", "__").replace("-", "___").replace(".", "_").upper()
        assert from_environment({variable: "x"}) == {name: "x"}


def test_cluster_id() -> None:
    assert assemble(None, {"CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw"}).cluster_id == "4L6g3nShT-eMCtK--X86sw"
    assert assemble(None, {"CLUSTER_ID": ""}).cluster_id is None
    assert assemble(None, {"CLUSTER_ID": "my-cluster"}).cluster_id == "my-cluster", "as in Kafka"
    for refused in (" ", "two words", "a\nb", "ä"):
        with pytest.raises(ConfigRefused, match=r"CLUSTER_ID=.*; allowed: ASCII letters"):
            assemble(None, {"CLUSTER_ID": refused})


def test_an_unknown_name_is_warned_about_with_the_nearest_known() -> None:
    config = assemble({"log.retention.hour": "1", "zookeeper.connect": "x", "rsm.config.bucket": "b"}, {})
    first, second = _texts(config, Level.WARNING)
    assert "'log.retention.hour'" in first
    assert "log.retention.hours" in first
    assert second == "unknown setting 'zookeeper.connect'"


@pytest.mark.parametrize("entry", ["num.partitions", "=3", ""])
def test_an_override_needs_a_name_and_a_value(entry: str) -> None:
    with pytest.raises(LocalError, match="key=value"):
        assemble(None, {}, [entry])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", "org.example.Doorman"),
        ("super.users", "User:admin"),
        ("allow.everyone.if.no.acl.found", "false"),
        ("ssl.engine.factory.class", "hunter2"),
        ("ssl.provider", "hunter2"),
        ("sasl.jaas.config", "hunter2"),
        ("security.inter.broker.protocol", "SSL"),
        ("create.topic.policy.class.name", "a.B"),
        ("config.providers", "env"),
        ("listener.name.client.ssl.engine.factory.class", "hunter2"),
    ],
)
def test_protection_is_never_pretended(name: str, value: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        assemble({name: value}, {})
    assert refused.value.name == name
    assert name in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_protection_at_its_default_is_accepted() -> None:
    harmless = {"authorizer.class.name": "", "ssl.client.auth": "none", "ssl.keymanager.algorithm": "SunX509"}
    assert assemble(harmless, {}).notices == ()


@pytest.mark.parametrize(
    "settings",
    [
        {"num.partitions": "0"},
        {"process.roles": "broker"},
        {"process.roles": "controller"},
        {"controller.quorum.voters": "2@a:9093,3@b:9093"},
        {"controller.quorum.voters": "1@a:9093,1@b:9093"},
        {"controller.quorum.voters": "1@b:65536"},
        {"process.roles": "broker", "controller.quorum.bootstrap.servers": "b:65536"},
        {"process.roles": "broker", "controller.quorum.voters": "1@a:9093,2@b:9093"},
        {
            "process.roles": "broker",
            "controller.quorum.voters": "2@a:9093",
            "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
        },
        {
            "process.roles": "controller",
            "controller.quorum.voters": "1@a:9093",
            "listeners": "PLAINTEXT://:1,CONTROLLER://:2",
        },
        {
            "controller.quorum.voters": "1@a:1,2@b:1",
            "listeners": "PLAINTEXT://:1",
            "controller.listener.names": "X",
        },
        {
            "process.roles": "broker",
            "controller.quorum.bootstrap.servers": "a:9093",
            "controller.quorum.auto.join.enable": "true",
        },
        {"node.id": "1", "broker.id": "2"},
        {"log.dirs": ""},
        {"log.retention.ms": "0"},
    ],
    ids=str,
)
def test_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigRefused) as refused:
        assemble(settings, {})
    assert refused.value.name in settings


def test_roles_and_voters() -> None:
    voters = {"controller.quorum.voters": "1@a:9093,2@[::1]:9094"}
    combined = assemble(voters, {})
    assert combined.roles == {Role.BROKER, Role.CONTROLLER}
    assert combined.quorum.voters == ((1, "a", 9093), (2, "::1", 9094))
    assert not combined.quorum.alone
    broker = assemble({**voters, "process.roles": "broker", "node.id": "3"}, {})
    assert (broker.controller_listeners, [x.name for x in broker.listeners]) == ((), ["PLAINTEXT"])
    controller = assemble({**voters, "process.roles": "controller"}, {})
    assert (controller.listeners, [x.name for x in controller.controller_listeners]) == ((), ["CONTROLLER"])
    assert controller.inter_broker_listener == ""


def test_a_controller_listener_on_every_interface_is_advertised_as_the_voter() -> None:
    listeners = {
        "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093",
        "ottla.allow.insecure.listeners": "true",
    }
    config = assemble({**listeners, "controller.quorum.voters": "1@voter.example:1,2@b:1"}, {})
    (listener,) = config.controller_listeners
    assert (listener.host, listener.port, listener.type) == ("", 9093, ListenerType.CONTROLLER)
    assert (listener.advertised_host, listener.advertised_port) == ("voter.example", 1)


@pytest.mark.parametrize(
    ("servers", "alone"),
    [
        ("", True),
        ("localhost:9093", True),
        ("127.0.0.1:9093", True),
        ("other:9093", False),
        ("a:1,b:1", False),
    ],
)
def test_a_node_without_voters_is_alone_unless_bootstrap_servers_name_others(
    servers: str, alone: bool
) -> None:
    assert assemble({"controller.quorum.bootstrap.servers": servers}, {}).quorum.alone is alone


def test_a_controller_asks_the_other_bootstrap_servers() -> None:
    servers = {"controller.quorum.bootstrap.servers": "a:9093,localhost:9093,b:9094"}
    listeners = {"listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"}
    assert assemble({**servers, **listeners}, {}).quorum.remote_servers == (("a", 9093), ("b", 9094))
    broker = assemble({**servers, "process.roles": "broker"}, {})
    assert broker.quorum.remote_servers == broker.quorum.bootstrap_servers


def test_broker_id_is_the_old_name_of_node_id() -> None:
    config = assemble({"broker.id": "7"}, {})
    assert config.node_id == 7
    assert config.broker.explicit["node.id"] == "7"
    assert assemble({"node.id": "8"}, {}).broker.int("broker.id") == 8
    assert assemble({"controller.quorum.voters": "8@localhost:9093", "node.id": "8"}, {}).node_id == 8


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("listners", "listeners"),
        ("listener", "listeners"),
        ("log.dris", "log.dirs"),
        ("process.role", "process.roles"),
        ("node.ids", "node.id"),
        ("advertised.listner", "advertised.listeners"),
        ("controller.quorum.voter", "controller.quorum.voters"),
    ],
)
def test_a_misspelt_setting_that_makes_another_node_is_refused(name: str, meant: str) -> None:
    with pytest.raises(ConfigRefused, match=rf"unknown setting '{name}'; did you mean {meant}\?"):
        assemble(None, {}, [f"{name}=1"])


@pytest.mark.parametrize("name", ["advertised.host.name", "zookeeper.connect", "port", "node.name"])
def test_other_unknown_names_are_accepted(name: str) -> None:
    assert len(_texts(assemble(None, {}, [f"{name}=1"]), Level.WARNING)) == 1


def test_a_port_is_that_of_the_only_listener_on_loopback() -> None:
    (listener,) = assemble(None, {}, port=19_092).listeners
    assert (listener.name, listener.host, listener.port) == ("PLAINTEXT", "127.0.0.1", 19_092)


@pytest.mark.parametrize(
    ("file", "env", "overrides"),
    [
        ({"listeners": "PLAINTEXT://:1"}, {}, []),
        (None, {"KAFKA_LISTENERS": "PLAINTEXT://:1"}, []),
        (None, {}, ["listeners=PLAINTEXT://:1"]),
    ],
)
def test_a_port_beside_listeners_is_refused(
    file: dict[str, str] | None, env: dict[str, str], overrides: list[str]
) -> None:
    with pytest.raises(LocalError, match=r"--port 5: listeners=PLAINTEXT://:1 is set as well"):
        assemble(file, env, overrides, port=5)


def test_without_a_file_the_first_rebalance_of_a_classic_group_does_not_wait() -> None:
    name = "group.initial.rebalance.delay.ms"
    assert assemble(None, {}).broker.int(name) == 0
    assert assemble(None, {}, [f"{name}=7"]).broker.int(name) == 7
    assert assemble({}, {}).broker.int(name) == 3000


def test_the_port_of_metrics_is_a_setting_of_ottla() -> None:
    assert assemble(None, {}).metrics_port is None
    assert assemble(None, {}, ["ottla.metrics.port=9404"]).metrics_port == 9404
    assert assemble({**QUICK_START, "ottla.metrics.port": "0"}, {}).metrics_port == 0
    assert assemble(None, {"KAFKA_OTTLA_METRICS_PORT": "9404"}).metrics_port == 9404
    config = assemble(None, {}, ["ottla.metrics.port=9404"])
    assert not [notice for notice in config.notices if "metrics" in notice.text]


@pytest.mark.parametrize("text", ["", "x", "-1", "65536"])
def test_a_wrong_port_of_metrics_is_refused(text: str) -> None:
    with pytest.raises(ConfigRefused, match=r"ottla\.metrics\.port"):
        assemble(None, {}, [f"ottla.metrics.port={text}"])
