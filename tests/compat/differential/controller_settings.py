"""AlterConfigs and IncrementalAlterConfigs at the listeners of controllers, without a broker that checks them first."""

from __future__ import annotations

from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.compat.differential.controllers import ControllerPlayer, controllers
from tests.compat.differential.settings import Change, alter, change
from tests.compat.differential.three_nodes import ClusterPlayer

TOPIC_TYPE, BROKER_TYPE, METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC = "settings-of-controllers"
MIN_ISR = "min.insync.replicas"
THROTTLED = "leader.replication.throttled.replicas"

Resource = tuple[int, str, list[Change]]
CASES: dict[str, list[Resource]] = {
    "nothing": [],
    "unknown type": [(99, "x", [("a", SET, "b")])],
    "type 0": [(0, "x", [("a", SET, "b")])],
    "type 0 twice": [(0, "x", []), (0, "x", [])],
    "topic": [(TOPIC_TYPE, TOPIC, [("retention.ms", SET, "100000")])],
    "topic twice": [(TOPIC_TYPE, TOPIC, []), (TOPIC_TYPE, TOPIC, [])],
    "topic three times": [(TOPIC_TYPE, TOPIC, [])] * 3,
    "setting twice": [(TOPIC_TYPE, TOPIC, [("retention.ms", SET, "1"), ("retention.ms", SET, "2")])],
    "no value": [(TOPIC_TYPE, TOPIC, [("retention.ms", SET, None)])],
    "unknown topic": [(TOPIC_TYPE, "nowhere", [("retention.ms", SET, "1")])],
    "unknown topic, wrong value": [(TOPIC_TYPE, "nowhere", [("retention.ms", SET, "x")])],
    "no topic": [(TOPIC_TYPE, "", [("retention.ms", SET, "1")])],
    "wrong topic": [(TOPIC_TYPE, "a/b", [("retention.ms", SET, "1")])],
    "wrong value": [(TOPIC_TYPE, TOPIC, [("retention.ms", SET, "x")])],
    "unknown setting": [(TOPIC_TYPE, TOPIC, [("x", SET, "1")])],
    "append to a number": [(TOPIC_TYPE, TOPIC, [("retention.ms", APPEND, "1")])],
    "all brokers": [(BROKER_TYPE, "", [("log.retention.ms", SET, "100000")])],
    "a broker": [(BROKER_TYPE, "1", [("log.retention.ms", SET, "100000")])],
    "an unknown broker": [(BROKER_TYPE, "77", [("log.retention.ms", SET, "100000")])],
    "no broker": [(BROKER_TYPE, "x", [("log.retention.ms", SET, "1")])],
    "a negative broker": [(BROKER_TYPE, "-1", [("log.retention.ms", SET, "1")])],
    "a broker, unknown setting": [(BROKER_TYPE, "1", [("x.y", SET, "1")])],
    "a broker, min.insync.replicas": [(BROKER_TYPE, "1", [(MIN_ISR, SET, "1")])],
    "a broker, without min.insync.replicas": [(BROKER_TYPE, "1", [(MIN_ISR, DELETE, None)])],
    "a broker, wrong min.insync.replicas": [(BROKER_TYPE, "1", [(MIN_ISR, SET, "x")])],
    "all brokers, without min.insync.replicas": [(BROKER_TYPE, "", [(MIN_ISR, DELETE, None)])],
    "metrics": [(METRICS, "m", [("interval.ms", SET, "1000")])],
    "metrics, wrong value": [(METRICS, "m", [("interval.ms", SET, "1")])],
    "no metrics": [(METRICS, "", [("interval.ms", SET, "1000")])],
    "group": [(GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])],
    "group, wrong value": [(GROUP, "g", [("consumer.session.timeout.ms", SET, "1")])],
    "no group": [(GROUP, "", [("consumer.session.timeout.ms", SET, "50000")])],
}


def play(player: ClusterPlayer) -> None:
    active = player.cluster.controller()
    assert active is not None
    wanted = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=3)
    player.nodes[0].quietly(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 7)
    listeners = controllers(player, active, ControllerPlayer)
    for label, one in listeners.items():
        for title, resources in CASES.items():
            one.ask(f"change {title}, {label}", change(*resources, validate_only=True), 1)
            whole = [
                (kind, name, {key: value for key, _, value in changes}) for kind, name, changes in resources
            ]
            one.ask(f"alter {title}, {label}", alter(*whole, validate_only=True), 2)
    one = listeners["active controller"]
    repeated = [(TOPIC_TYPE, TOPIC, [(THROTTLED, SET, "0:1,0:1,0:2")])]
    one.ask("change: repeated entries", change(*repeated), 1)
    one.ask(
        "change: without a repeated entry", change((TOPIC_TYPE, TOPIC, [(THROTTLED, SUBTRACT, "0:1")])), 1
    )
    for at in (0, 4000):
        part = ",".join(f"{each}:0" for each in range(at, at + 4000))
        one.ask(f"change: a long value, {at}", change((TOPIC_TYPE, TOPIC, [(THROTTLED, APPEND, part)])), 1)
    for each in listeners.values():
        each.reconnect()
