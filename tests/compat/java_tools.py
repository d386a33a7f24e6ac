"""Kafka's own tools, unmodified, run in one JVM that stays: a start would cost more than the tool."""

from __future__ import annotations

import base64
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.kafka_jars import class_path
from bench.places import WORK

JAVA_SOURCES = Path(__file__).parent / "java"
CLASSES = WORK / "java"


def java_command(main_class: str) -> list[str]:
    """How to run one of the classes beside this file; they are compiled when a source is newer."""
    sources = sorted(JAVA_SOURCES.glob("*.java"))
    newest = max(source.stat().st_mtime for source in sources)
    compiled = [CLASSES / f"{source.stem}.class" for source in sources]
    if not all(path.exists() and path.stat().st_mtime >= newest for path in compiled):
        CLASSES.mkdir(parents=True, exist_ok=True)
        subprocess.run(["javac", "-cp", class_path(), "-d", str(CLASSES), *map(str, sources)], check=True)
    return ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{CLASSES}:{class_path()}", main_class]


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class JavaTools:
    """Runs tools one after the other. Tools are named as their scripts are."""

    MAIN = {
        "kafka-acls": "org.apache.kafka.tools.AclCommand",
        "kafka-topics": "org.apache.kafka.tools.TopicCommand",
        "kafka-configs": "kafka.admin.ConfigCommand",
        "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
        "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
        "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
        "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
        "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
        "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
        "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
        "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "kafka-features": "org.apache.kafka.tools.FeatureCommand",
        "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
        "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
        "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
        "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
        "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
        "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
        "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
        "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    }

    def __init__(self) -> None:
        self._jvm = subprocess.Popen(
            java_command("Tools"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def run(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        words = [stdin, self.MAIN[tool], *arguments]
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.write(" ".join(base64.b64encode(word.encode()).decode() for word in words) + "\n")
        self._jvm.stdin.flush()
        answer = self._jvm.stdout.readline().rstrip("\n").split(" ")
        assert len(answer) == 3, "the JVM has ended"
        out, err = (base64.b64decode(word).decode(errors="replace") for word in answer[1:])
        return Ran(int(answer[0]), out, err)

    def alone(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        """Runs a tool in a JVM of its own: one that does its last work in a shutdown hook."""
        command = [*java_command(self.MAIN[tool]), *arguments]
        ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, check=False)
        return Ran(ran.returncode, ran.stdout, ran.stderr)

    def good(self, tool: str, *arguments: str, stdin: str = "") -> Ran:
        """Runs a tool that must succeed."""
        ran = self.run(tool, *arguments, stdin=stdin)
        assert ran.code == 0, f"{tool} {' '.join(arguments)} ended with {ran.code}:\n{ran.out}\n{ran.err}"
        return ran

    def close(self) -> None:
        assert self._jvm.stdin is not None
        assert self._jvm.stdout is not None
        self._jvm.stdin.close()
        self._jvm.wait(30)
        self._jvm.stdout.close()
