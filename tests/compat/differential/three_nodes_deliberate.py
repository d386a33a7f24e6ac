"""Differences between three nodes of Ottla and of Apache Kafka that are deliberate, with their reasons."""

from __future__ import annotations

from tests.compat.differential.comparison import Deliberate

DELIBERATE = [
    Deliberate(
        "three-nodes",
        "versions",
        r"\.api_keys\.(7[6-9]|8[3-9]|9[0-2])$",
        "share groups and streams groups are not implemented",
    ),
    Deliberate(
        "three-nodes",
        ".*: create",
        r".*\.flush\.messages\.value$",
        "acknowledged records are synced by default",
    ),
    Deliberate(
        "three-nodes",
        ".*: fetch from 1073741824",
        r".*\.error_code$",
        "a follower cannot tell whether an offset beyond its end is committed, so it reports OFFSET_NOT_AVAILABLE",
    ),
]

EVERY_NODE = [
    Deliberate(
        "every-node",
        ".*: create",
        r".*\.flush\.messages\.value$",
        "acknowledged records are synced by default",
    ),
]

FIVE_NODES = [
    Deliberate(
        "five-nodes",
        "unregistered: partitions",
        r".*\.eligible_leader_replicas\.length$",
        "a broker that is unregistered is not eligible any more: a later one of its id may have an empty disk",
    ),
]

NODES = [
    Deliberate(
        "nodes",
        "snapshot(?!, another cluster)",
        r".*",
        "Apache Kafka fails to encode a response with an error",
    ),
    Deliberate(
        "nodes",
        "(change|alter) (unknown type|type 0|topic t|setting twice|no value)",
        r".*",
        "a controller checks the form of a request as a broker does",
    ),
    Deliberate(
        "nodes",
        "(change|alter) .* min.insync.replicas, active controller",
        r".*\.error_code$",
        "values and nulls are checked first, as by a broker",
    ),
    Deliberate(
        "nodes",
        "create while it stops",
        r".*",
        "a broker that stops gets replicas if there are too few others",
    ),
]
