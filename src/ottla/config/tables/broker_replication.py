"""Broker settings: replicas, followers and leader election."""

from __future__ import annotations

from ottla.config.tables.notation import (
    ACCEPTED,
    ANYTHING,
    BOOLEAN,
    CLUSTER,
    HIGH,
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
    Key("unclean.leader.election.enable", BOOLEAN, "false", HIGH, CLUSTER, ACCEPTED, ANYTHING,
        "Whether a replica that may miss records can become leader when no other is left."),
    Key("unclean.leader.election.interval.ms", LONG, "300000", MEDIUM, STATIC, ACCEPTED, at_least(1),
        "Pause between looks for partitions without a leader that may be elected uncleanly.", internal=True),
    Key("auto.leader.rebalance.enable", BOOLEAN, "true", HIGH, STATIC, ACCEPTED, ANYTHING,
        "Whether leadership goes back to the preferred replicas by itself."),
    Key("leader.imbalance.check.interval.seconds", LONG, "300", HIGH, STATIC, ACCEPTED, at_least(1),
        "Pause between looks for leaders that are not where they should be."),
    Key("num.replica.fetchers", INT, "1", HIGH, CLUSTER, ACCEPTED, at_least(1),
        "Fetchers that copy from each other broker."),
    Key("num.replica.alter.log.dirs.threads", INT, None, HIGH, STATIC, ACCEPTED, ANYTHING,
        "Threads that move replicas between data directories; the number of directories when not set."),
    Key("replica.lag.time.max.ms", LONG, "30000", HIGH, STATIC, ACCEPTED, ANYTHING,
        "How long a follower may stay behind before it leaves the in-sync replicas."),
    Key("replica.socket.timeout.ms", INT, "30000", HIGH, STATIC, ACCEPTED, ANYTHING,
        "How long a follower waits for its leader on the network."),
    Key("replica.socket.receive.buffer.bytes", INT, "65536", HIGH, STATIC, ACCEPTED, ANYTHING,
        "Receive buffer of the connections that copy replicas."),
    Key("replica.fetch.max.bytes", INT, "1048576", MEDIUM, STATIC, ACCEPTED, at_least(0),
        "Bytes a follower asks for in one partition; the first batch always passes."),
    Key("replica.fetch.wait.max.ms", INT, "500", HIGH, STATIC, ACCEPTED, ANYTHING,
        "How long a leader may keep a follower's fetch waiting for new data."),
    Key("replica.fetch.backoff.ms", INT, "1000", MEDIUM, STATIC, ACCEPTED, at_least(0),
        "Pause of a follower after a failed fetch."),
    Key("replica.fetch.min.bytes", INT, "1", HIGH, STATIC, ACCEPTED, ANYTHING,
        "Bytes a leader gathers before it answers a follower."),
    Key("replica.fetch.response.max.bytes", INT, "10485760", MEDIUM, STATIC, ACCEPTED, at_least(0),
        "Bytes a follower asks for in one response."),
    Key("replica.high.watermark.checkpoint.interval.ms", LONG, "5000", HIGH, STATIC, ACCEPTED, ANYTHING,
        "Pause between writes of the high watermarks; here they go with the recovery points."),
    Key("replica.selector.class", STRING, None, MEDIUM, STATIC, ACCEPTED, ANYTHING,
        "Java class that chooses the replica a consumer reads from; Ottla always answers from the leader."),
    Key("follower.fetch.last.tiered.offset.enable", BOOLEAN, "false", MEDIUM, CLUSTER, ACCEPTED, ANYTHING,
        "Whether a new follower starts at the end of the tiered data."),
)

# Settings that no file can hold: they exist only while the brokers run, made by a reassignment.
DYNAMIC_ONLY_KEYS = (
    Key("leader.replication.throttled.rate", LONG, "9223372036854775807", MEDIUM, CLUSTER, ACCEPTED,
        at_least(0),
        "Most bytes a second that leaders send to throttled replicas."),
    Key("follower.replication.throttled.rate", LONG, "9223372036854775807", MEDIUM, CLUSTER, ACCEPTED,
        at_least(0),
        "Most bytes a second that throttled replicas fetch."),
    Key("replica.alter.log.dirs.io.max.bytes.per.second", LONG, "9223372036854775807", MEDIUM, CLUSTER,
        ACCEPTED, at_least(0),
        "Most bytes a second that moves between data directories of one broker copy."),
)
