"""Broker settings: replicas, followers and leader election."""

from __future__ import annotations

from ottla.config.tables.notation import (
    ACCEPTED,
    ANYTHING,
    BOOLEAN,
    CLUSTER,
    HIGH,
    HONOURED,
    INT,
    LONG,
    MEDIUM,
    STATIC,
    STRING,
    Key,
    at_least,
)

# fmt: off
KEYS = (
    Key("unclean.leader.election.enable", BOOLEAN, "false", HIGH, CLUSTER, HONOURED, ANYTHING,
        "Whether a replica outside the ISR, which may miss records, can become leader if no other can."),
    Key("unclean.leader.election.interval.ms", LONG, "300000", MEDIUM, STATIC, HONOURED, at_least(1),
        "Interval of the checks for partitions that need an unclean election.", internal=True),
    Key("auto.leader.rebalance.enable", BOOLEAN, "true", HIGH, STATIC, HONOURED, ANYTHING,
        "Whether leadership moves back to the preferred replicas automatically."),
    Key("leader.imbalance.check.interval.seconds", LONG, "300", HIGH, STATIC, HONOURED, at_least(1),
        "Interval of the checks for leaders that are not the preferred replica."),
    Key("num.replica.fetchers", INT, "1", HIGH, CLUSTER, ACCEPTED, at_least(1),
        "Fetchers that copy from each other broker."),
    Key("num.replica.alter.log.dirs.threads", INT, None, HIGH, STATIC, ACCEPTED, ANYTHING,
        "Threads that move replicas between data directories; the number of directories when not set."),
    Key("replica.lag.time.max.ms", LONG, "30000", HIGH, STATIC, HONOURED, ANYTHING,
        "How long a follower may lag before it is removed from the in-sync replicas."),
    Key("replica.socket.timeout.ms", INT, "30000", HIGH, STATIC, HONOURED, ANYTHING,
        "How long a follower waits for its leader on the network."),
    Key("replica.socket.receive.buffer.bytes", INT, "65536", HIGH, STATIC, ACCEPTED, ANYTHING,
        "Receive buffer of the connections that copy replicas."),
    Key("replica.fetch.max.bytes", INT, "1048576", MEDIUM, STATIC, HONOURED, at_least(0),
        "Bytes a follower requests of one partition; the first batch is always sent."),
    Key("replica.fetch.wait.max.ms", INT, "500", HIGH, STATIC, HONOURED, ANYTHING,
        "How long the fetch of a follower waits for new data."),
    Key("replica.fetch.backoff.ms", INT, "1000", MEDIUM, STATIC, HONOURED, at_least(0),
        "Longest pause of a follower after a failed fetch; Ottla begins with a shorter one."),
    Key("replica.fetch.min.bytes", INT, "1", HIGH, STATIC, HONOURED, ANYTHING,
        "Bytes that must be available before a leader responds to a follower."),
    Key("replica.fetch.response.max.bytes", INT, "10485760", MEDIUM, STATIC, HONOURED, at_least(0),
        "Bytes a follower requests in one response."),
    Key("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", HIGH, STATIC, ACCEPTED, ANYTHING,
        "Interval of writing high watermarks; Ottla writes them with the recovery points."),
    Key("replica.selector.class", STRING, None, MEDIUM, STATIC, HONOURED, ANYTHING,
        "Selector of the replica for a consumer: a name that ends in RackAwareReplicaSelector; otherwise the leader."),
    Key("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", MEDIUM, CLUSTER, ACCEPTED, ANYTHING,
        "Whether a new follower starts at the end of the tiered data."),
)

# Settings that no file can hold: they exist only while the brokers run, made by a reassignment.
DYNAMIC_ONLY_KEYS = (
    Key("leader.replication.throttled.rate", LONG, "9223372036854775807", MEDIUM, CLUSTER, HONOURED,
        at_least(0),
        "Most bytes a second that leaders send to throttled replicas."),
    Key("follower.replication.throttled.rate", LONG, "9223372036854775807", MEDIUM, CLUSTER, HONOURED,
        at_least(0),
        "Most bytes a second that throttled replicas fetch."),
    Key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, "9223372036854775807", MEDIUM, CLUSTER,
        HONOURED, at_least(0),
        "Most bytes a second that moves between data directories of one broker copy."),
)
