"""Broker settings: the transaction coordinator and idempotent producers."""

from __future__ import annotations

from ottla.config.tables.notation import (
    ACCEPTED,
    ANYTHING,
    BOOLEAN,
    CLUSTER,
    HIGH,
    HONOURED,
    INT,
    LOW,
    SHORT,
    STATIC,
    Key,
    at_least,
)

# fmt: off
KEYS = (
    Key("transaction.state.log.min.isr", INT, "2", HIGH, STATIC, HONOURED, at_least(1),
        "min.insync.replicas of the topic with transactions."),
    Key("transaction.state.log.load.buffer.size", INT, "5242880", HIGH, STATIC, ACCEPTED, at_least(1),
        "Bytes per read when transactions are loaded."),
    Key("transaction.state.log.replication.factor", SHORT, "3", HIGH, STATIC, HONOURED, at_least(1),
        "Replicas of the topic with transactions. If not set: 3, or the number of brokers."),
    Key("transaction.state.log.num.partitions", INT, "50", HIGH, STATIC, HONOURED, at_least(1),
        "Partitions of the topic with transactions; cannot be changed later."),
    Key("transaction.state.log.segment.bytes", INT, "104857600", HIGH, STATIC, HONOURED, at_least(1),
        "Segment size of the topic with transactions."),
    Key("transaction.partition.verification.enable", BOOLEAN, "true", LOW, CLUSTER, HONOURED, ANYTHING,
        "Whether the first transactional write to a partition is verified with the coordinator."),
    Key("transaction.max.timeout.ms", INT, "900000", HIGH, STATIC, HONOURED, at_least(1),
        "Longest transaction timeout that a producer may request."),
    Key("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, "10000", LOW, STATIC, HONOURED,
        at_least(1),
        "Interval of the checks for transactions that timed out."),
    Key("transaction.remove.expired.transaction.cleanup.interval.ms", INT, "3600000", LOW, STATIC, HONOURED,
        at_least(1),
        "Interval of the checks for expired transactional ids."),
    Key("transaction.two.phase.commit.enable", BOOLEAN, "false", LOW, STATIC, HONOURED, ANYTHING,
        "Whether transactions of an external coordinator (two-phase commit) are allowed."),
    Key("transactional.id.expiration.ms", INT, "604800000", HIGH, STATIC, HONOURED, at_least(1),
        "How long an unused transactional id is kept."),
    Key("producer.id.expiration.ms", INT, "86400000", LOW, CLUSTER, HONOURED, at_least(1),
        "How long a partition keeps the sequence numbers of an inactive idempotent producer."),
    Key("producer.id.expiration.check.interval.ms", INT, "600000", LOW, STATIC, HONOURED, at_least(1),
        "Interval of the checks for such producers.", internal=True),
    Key("add.partitions.to.txn.retry.backoff.max.ms", INT, "100", HIGH, STATIC, HONOURED, at_least(0),
        "How long the broker itself retries to add a partition to a transaction."),
    Key("add.partitions.to.txn.retry.backoff.ms", INT, "20", HIGH, STATIC, HONOURED, at_least(1),
        "Pause between such retries."),
)
