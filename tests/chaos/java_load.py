"""A Java client under faults: an idempotent producer and the member of a group, in one process, with their history."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.kafka_jars import KAFKA_VERSION, class_path
from bench.places import KAFKA_LIBS
from ottla.base.ids import TopicPartition
from ottla.testing.history import History
from tests.compat.clients.build import java_program
from tests.fault.load import Load
from tests.support.clients import fresh

MEMBER = "Java member"


def unavailable() -> str | None:
    """Why the Java client cannot be used; None if it can."""
    missing = [program for program in ("java", "javac") if shutil.which(program) is None]
    jars = (KAFKA_LIBS / f"kafka-clients-{KAFKA_VERSION}.jar").exists()
    if not jars and shutil.which("mvn") is None:
        missing.append("mvn")
    return f"{', '.join(missing)} not installed" if missing else None


class JavaLoad(Load):
    """The history also contains what the consumer has read."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        rate: int,
        errors: Path,
        command: Sequence[str] = (),
    ) -> None:
        super().__init__("JavaLoad", bootstrap, topic, partitions, rate=rate)
        arguments = [bootstrap, topic, str(partitions), fresh("java"), str(rate)]
        self._command = [*(command or java_program("ChaosClient", class_path())), *arguments]
        self._errors = errors
        self.seen: set[tuple[int, int]] = set()
        """Partition and offset of every record that was read."""
        self.finished = False
        """Whether the producer has ended, with a result for everything that was sent."""

    def run(self) -> None:
        """Follow the output of the process until it ends."""
        with self._errors.open("ab") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.follow(line.rstrip("\n"))
        code = self._process.wait()
        assert code == 0, f"the Java client has ended with {code}: {self._errors.read_text()[-2000:]}"

    def follow(self, line: str) -> None:
        """Add one event of the process to the history."""
        event, _, rest = line.partition(" ")
        if event == "sent":
            self._sent += 1
            self.history.sent(self.name, rest.encode())
        elif event == "acknowledged":
            partition, offset, value = rest.split(" ", 2)
            self.keep(value.encode(), int(partition), int(offset))
        elif event == "assigned":
            self.history.assigned(MEMBER)
        elif event == "read":
            partition, offset, value = rest.split(" ", 2)
            self.seen.add((int(partition), int(offset)))
            self.history.read(MEMBER, TopicPartition(self.topic, int(partition)), int(offset), value.encode())
        elif event == "finished":
            self.finished = True

    def finish_producing(self) -> None:
        """Let the producer end; the consumer continues."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def stop(self) -> History:
        assert self._process.stdin is not None
        self._process.stdin.close()
        return super().stop()

    def kill(self) -> None:
        """End the process at once, after an error."""
        self._process.kill()
