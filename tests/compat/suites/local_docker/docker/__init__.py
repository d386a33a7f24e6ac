"""A `docker` module for the fixtures of aiokafka: its container is a server of `KAFKA_HOME` on this machine.

`KAFKA_HOME` is a folder of `suites.kafka_home`. It provides what these fixtures call: `from_env`, `containers.run`,
`exec_run` and `stop`. Tools that used ZooKeeper use the bootstrap server, as the super user `admin`.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
_USERS = "".join(f' user_{name}="{name}"' for name in ("admin", "test", "test2"))
_JAAS = f"""\
KafkaServer {{
  {_PLAIN} username="admin" password="admin"{_USERS};
  {_SCRAM} username="test" password="test";
}};
"""
_ADMIN = f"""\
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config={_PLAIN} username="admin" password="admin";
"""
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ZOOKEEPER = re.compile(r"--authorizer-properties zookeeper.connect=\S+|--zookeeper \S+")


class Container:
    def __init__(self, environment: dict[str, Any], volumes: dict[Any, Any], command: str | None) -> None:
        self._binds = {bind["bind"]: str(path) for path, bind in volumes.items()}
        self._folder = Path(tempfile.mkdtemp(prefix="suite-"))
        self._home = Path(os.environ["KAFKA_HOME"])
        self._process: subprocess.Popen[bytes] | None = None
        self._sasl_port = environment.get("ADVERTISED_SASL_PLAINTEXT_PORT")
        if command is None:
            self._start(environment)

    def _start(self, environment: dict[str, Any]) -> None:
        names = ("ADVERTISED_PORT", *(f"ADVERTISED_{each}_PORT" for each in _PROTOCOLS[1:]))
        addresses = ",".join(
            f"{protocol}://127.0.0.1:{environment[name]}"
            for protocol, name in zip(_PROTOCOLS, names, strict=True)
        )
        controller = int(environment["ADVERTISED_PORT"]) % 10_000 + 20_000
        store = {"location": "br_server.{}.jks", "password": "abcdefgh"}
        settings = {
            "process.roles": "broker,controller",
            "node.id": "0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"0@127.0.0.1:{controller}",
            "listeners": f"{addresses},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": addresses,
            "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in _PROTOCOLS)
            + ",CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "SASL_PLAINTEXT",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:admin",
            "ssl.client.auth": "required",
            "ssl.key.password": store["password"],
            "num.partitions": str(environment["NUM_PARTITIONS"]),
            "log.dirs": str(self._folder / "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        for kind in ("keystore", "truststore"):
            settings[f"ssl.{kind}.location"] = f"{self._binds['/ssl_cert']}/{store['location'].format(kind)}"
            settings[f"ssl.{kind}.password"] = store["password"]
        properties = self._folder / "server.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        (self._folder / "jaas.conf").write_text(_JAAS)
        (self._folder / "admin.properties").write_text(_ADMIN)
        scripts = self._home / "bin"
        storage = [scripts / "kafka-storage.sh", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", properties]
        subprocess.run(storage, check=True, capture_output=True)
        login = f"-Djava.security.auth.login.config={self._folder / 'jaas.conf'}"
        with (self._folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [scripts / "kafka-server-start.sh", properties],
                env={**os.environ, "KAFKA_OPTS": login}, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def exec_run(self, command: str | list[str], **_: object) -> tuple[int, bytes]:
        if isinstance(command, list):
            words = [self._binds.get(word, word) for word in command]
            return _run(words, self._binds.get("/ssl_cert"))
        address = f"--bootstrap-server 127.0.0.1:{self._sasl_port}"
        admin = f"--command-config {self._folder / 'admin.properties'}"
        line = re.sub(r"^/opt/kafka_[^/]*", str(self._home), _ZOOKEEPER.sub(f"{address} {admin}", command))
        words = shlex.split(line)
        # A user can be altered once in a request, in Kafka since it has no ZooKeeper.
        users = next((word for word in words if word.startswith("SCRAM-SHA-")), None)
        results = [
            _run([user if word == users else word for word in words])
            for user in (re.split(r",(?=SCRAM)", users) if users is not None else [None])
        ]
        return max(results)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)


def _run(words: list[Any], folder: str | None = None) -> tuple[int, bytes]:
    ran = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return ran.returncode, ran.stdout


class _Client:
    images = SimpleNamespace(pull=lambda _: None)
    containers = SimpleNamespace(
        run=lambda environment=None, volumes=None, command=None, **_: Container(
            environment or {}, volumes or {}, command
        )
    )

    def close(self) -> None:
        pass


def from_env() -> _Client:
    return _Client()


models = SimpleNamespace(containers=SimpleNamespace(Container=Container))
