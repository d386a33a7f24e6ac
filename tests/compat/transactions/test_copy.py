"""Kafka's transactional copy: 100,000 records in transactions of 750, copier and broker killed over and over."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.kafka_jars import class_path
from tests.compat.clients.build import JAVA_OPTIONS
from tests.conftest import MakeBroker
from tests.support.transactional_copy import (
    BROKER_SETTINGS,
    CopierCommand,
    Job,
    confluent_copier,
    copy_under_fire,
)

RECORDS = 100_000
SIZE = 750
# The copier of Kafka's system tests ends at the end of its input, and with 1 when it lost its broker.
JAVA_COPIER_ENDS = frozenset({0, 1})
# It asks for its place before it ends the transaction of its predecessor, so it waits for that one's timeout.
SHORT_TRANSACTIONS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}
JAVA_TRANSACTION_MS = 15_000


def java_copier(*options: str) -> CopierCommand:
    """The copier of Kafka's own system tests, as it is in Kafka's jars."""

    def command(job: Job) -> list[str]:
        return [
            "java",
            *JAVA_OPTIONS,
            "-cp",
            class_path(),
            "org.apache.kafka.tools.TransactionalMessageCopier",
            "--broker-list",
            job.bootstrap,
            "--input-topic",
            job.source,
            "--input-partition",
            "0",
            "--output-topic",
            job.target,
            "--consumer-group",
            job.group,
            "--transactional-id",
            job.group,
            "--transaction-size",
            str(job.size),
            "--transaction-timeout",
            str(JAVA_TRANSACTION_MS),
            *options,
        ]

    return command


@pytest.mark.compat
@pytest.mark.torture
@pytest.mark.parametrize("mode", ["assign", "classic", "consumer"])
def test_a_hundred_thousand_records_are_copied_exactly(
    make_broker: MakeBroker, tmp_path: Path, mode: str
) -> None:
    broker = make_broker(BROKER_SETTINGS)
    copy_under_fire(broker, tmp_path, confluent_copier(mode), records=RECORDS, size=SIZE, kills=8)


@pytest.mark.compat
@pytest.mark.usefixtures("kafka_jars")
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--use-group-metadata"], id="group-metadata"),
        pytest.param(["--enable-random-aborts"], id="random-aborts"),
    ],
)
def test_the_copier_of_kafkas_system_tests(
    make_broker: MakeBroker, tmp_path: Path, options: list[str]
) -> None:
    copy_under_fire(
        make_broker({**BROKER_SETTINGS, **SHORT_TRANSACTIONS}),
        tmp_path,
        java_copier(*options),
        records=20_000,
        size=SIZE,
        kills=4,
        partitions=1,
        window=10_000,
        may_end_with=JAVA_COPIER_ENDS,
    )
