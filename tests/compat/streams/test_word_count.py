"""Kafka Streams' word count with exactly_once_v2 counts exactly, although the broker is killed in the middle."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.compat.clients.build import word_count
from tests.conftest import MakeBroker
from tests.support.clients import Publisher, create_topic
from tests.support.transactional_copy import BROKER_SETTINGS, CommittedReader
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("kafka_jars")]

PARTITIONS = 2
LINES = 2_000
WORDS_IN_A_LINE = 5
VOCABULARY = ["foul", "free", "throw", "score", "canada", "usa", "timeout", "rebound", "steal", "block"]


def lines_of(seed: int) -> list[list[str]]:
    dice = Random(seed)
    return [dice.choices(VOCABULARY, k=WORDS_IN_A_LINE) for _ in range(LINES)]


class Counting:
    """The word count as a process; what it puts out is read with read_committed."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.errors = folder / "streams.err"
        command = [*word_count(), bootstrap, "word-count", "lines", "counts", str(folder / "state")]
        with self.errors.open("ab") as err:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said == "RUNNING\n", self.errors.read_text()[-3000:]

    def kill(self) -> None:
        self.process.kill()
        self._over()

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._over()
        assert self.process.returncode == 0, self.errors.read_text()[-3000:]

    def _over(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.wait(60)
        self.process.stdin.close()
        self.process.stdout.close()


def test_words_are_counted_exactly_once(make_broker: MakeBroker, tmp_path: Path) -> None:
    broker = make_broker(BROKER_SETTINGS)
    create_topic(broker.bootstrap, "lines", PARTITIONS)
    create_topic(broker.bootstrap, "counts", 1)
    publisher = Publisher(broker.bootstrap, {"log_level": 0})
    parts = [lines_of(seed) for seed in (1, 2, 3)]
    reader = CommittedReader(broker.bootstrap, "counts", 1)
    counting = Counting(broker.bootstrap, tmp_path)

    def publish(lines: list[list[str]]) -> None:
        publisher.send("lines", [{"key": " ".join(words), "value": " ".join(words)} for words in lines])

    def counted(least: int) -> None:
        wait_until(lambda: reader.count >= least, f"{least} counts", timeout_s=90)

    try:
        publish(parts[0])
        counted(LINES)
        broker.kill()
        broker.start()
        publish(parts[1])
        counted(LINES * WORDS_IN_A_LINE + LINES)
        counting.kill()
        counting = Counting(broker.bootstrap, tmp_path)
        publish(parts[2])
        counted(3 * LINES * WORDS_IN_A_LINE)
        counting.stop()
    finally:
        if counting.process.returncode is None:
            counting.kill()
        reader.close()
    expected = Counter(word for part in parts for words in part for word in words)
    seen: dict[bytes | None, list[int]] = {}
    for key, value in zip(reader.keys[0], reader.values[0], strict=True):
        seen.setdefault(key, []).append(int(value))
    # Without a cache every step of every count is put out: 1, 2, 3, ... and nothing twice.
    assert seen == {word.encode(): list(range(1, count + 1)) for word, count in expected.items()}
