"""Problems of a cluster: what an operator should look at, the worst first.

`problems_of` is a pure function of what was queried; `health` queries it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.admin.cluster import LogDir, NodeInfo, QuorumInfo, log_dirs, nodes, quorum
from ottla.admin.configs import configs
from ottla.admin.session import Session
from ottla.base.ids import TopicPartition
from ottla.client.raw import ClientError
from ottla.client.raw.metadata import NO_LEADER

CRITICAL, WARNING, NOTE = "critical", "warning", "note"
SEVERITIES = (CRITICAL, WARNING, NOTE)
_MIN_ISR = "min.insync.replicas"
_DISK_USABLE_MIN = 0.1
"""The share of a file system that should be usable."""
_VOTER_SILENT_MS = 15_000
_NAMED_MAX = 5


@dataclass(frozen=True)
class Problem:
    """One problem: its severity, a short name of its kind, a sentence, and what to do."""

    severity: str
    kind: str
    text: str
    hint: str = ""


@dataclass(frozen=True)
class PartitionHealth:
    """What the health of a partition is decided on."""

    tp: TopicPartition
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True)
class Observed:
    """What was queried."""

    nodes: Sequence[NodeInfo]
    quorum: QuorumInfo | None
    partitions: Sequence[PartitionHealth]
    min_isr: Mapping[str, int]
    """By topic, of the topics with missing replicas."""
    dirs: Sequence[LogDir]
    unreachable: Mapping[int, str]
    now_ms: int


def health(session: Session) -> list[Problem]:
    """The problems of a cluster now; none if all is well."""
    return problems_of(observe(session))


def observe(session: Session) -> Observed:
    """Query what `problems_of` decides on."""
    listed = nodes(session)
    try:
        described: QuorumInfo | None = quorum(session)
    except ClientError:
        described = None
    partitions = [
        PartitionHealth(
            TopicPartition(topic.name or "", one.partition_index),
            one.leader_id,
            tuple(one.replica_nodes),
            tuple(one.isr_nodes),
        )
        for topic in session.metadata(None).topics
        for one in topic.partitions
    ]
    behind = sorted({each.tp.topic for each in partitions if len(each.isr) < len(each.replicas)})
    found, failed = log_dirs(session)
    return Observed(
        listed,
        described,
        partitions,
        {topic: min_insync_replicas(session, topic) for topic in behind},
        found,
        {node: str(error) for node, error in failed.items()},
        session.clock.now_ms(),
    )


def min_insync_replicas(session: Session, topic: str) -> int:
    """The setting of a topic; 1 if it cannot be read."""
    try:
        found = {each.name: each.value for each in configs(session, topic)}
    except ClientError:
        return 1
    return int(found.get(_MIN_ISR) or 1)


def problems_of(observed: Observed) -> list[Problem]:
    """All problems, the worst first."""
    found = [
        *_node_problems(observed),
        *_quorum_problems(observed),
        *_partition_problems(observed),
        *_disk_problems(observed.dirs),
    ]
    return sorted(found, key=lambda each: SEVERITIES.index(each.severity))


def _node_problems(observed: Observed) -> Iterable[Problem]:
    for node in observed.nodes:
        if node.fenced:
            yield Problem(
                WARNING,
                "fenced broker",
                f"broker {node.node_id} ({node.address}) is fenced: the controller gets no heartbeats from it",
                "start it, or look at its log",
            )
    for node_id, why in observed.unreachable.items():
        yield Problem(
            CRITICAL,
            "unreachable broker",
            f"broker {node_id} is registered, but cannot be reached: {why}",
            "check advertised.listeners and the network; `ottla doctor` finds the cause",
        )


def _quorum_problems(observed: Observed) -> Iterable[Problem]:
    if observed.quorum is None or observed.quorum.leader is None:
        yield Problem(
            CRITICAL,
            "no controller",
            "there is no active controller: topics cannot be changed, and leaders cannot be elected",
            "a majority of the voters must run",
        )
        return
    silent = [
        each.node_id
        for each in observed.quorum.voters
        if not each.leader and observed.now_ms - (each.last_fetch_ms or 0) > _VOTER_SILENT_MS
    ]
    voters = len(observed.quorum.voters)
    if silent:
        left = voters - len(silent)
        spare = left - (voters // 2 + 1)
        yield Problem(
            CRITICAL if spare <= 0 and voters > 1 else WARNING,
            "silent voter",
            f"voters {_listed(silent)} of the quorum do not fetch; {left} of {voters} run",
            "one more failure stops the cluster" if spare <= 0 else "start them",
        )


def _partition_problems(observed: Observed) -> Iterable[Problem]:
    offline = [each.tp for each in observed.partitions if each.leader == NO_LEADER]
    behind = [
        each
        for each in observed.partitions
        if each.leader != NO_LEADER and len(each.isr) < len(each.replicas)
    ]
    stopped = [
        each.tp
        for each in behind
        if len(each.isr) < min(observed.min_isr.get(each.tp.topic, 1), len(each.replicas))
    ]
    unpreferred = [
        each.tp
        for each in observed.partitions
        if each.leader != NO_LEADER and each.replicas and each.leader != each.replicas[0]
    ]
    if offline:
        yield Problem(
            CRITICAL,
            "no leader",
            f"{len(offline)} partitions have no leader and cannot be used: {_listed(offline)}",
            "start the brokers of their in-sync replicas",
        )
    if stopped:
        yield Problem(
            CRITICAL,
            "under min.insync.replicas",
            f"{len(stopped)} partitions refuse acks=all: {_listed(stopped)}",
            "start the brokers of the missing replicas",
        )
    if behind:
        yield Problem(
            WARNING,
            "under-replicated",
            f"{len(behind)} partitions miss in-sync replicas: {_listed([each.tp for each in behind])}",
            "start the brokers of the missing replicas, or wait until they have caught up",
        )
    if unpreferred:
        yield Problem(
            NOTE,
            "leader not preferred",
            f"{len(unpreferred)} partitions are led by another than their first replica: {_listed(unpreferred)}",
            "`ottla cluster elect` moves them back",
        )


def _disk_problems(dirs: Sequence[LogDir]) -> Iterable[Problem]:
    for each in dirs:
        if each.error is not None:
            yield Problem(
                CRITICAL,
                "offline log directory",
                f"log directory {each.path} of broker {each.node_id} is offline ({each.error})",
                "look at the log of the broker, repair the disk, restart the broker",
            )
        elif each.total and each.usable is not None and each.usable / each.total < _DISK_USABLE_MIN:
            yield Problem(
                WARNING,
                "disk nearly full",
                f"log directory {each.path} of broker {each.node_id}:"
                f" {100 * each.usable / each.total:.0f} % of its file system is left",
                "shorten retention.ms or retention.bytes, or trim topics",
            )


def _listed(items: Sequence[object]) -> str:
    shown = ", ".join(map(str, items[:_NAMED_MAX]))
    return shown if len(items) <= _NAMED_MAX else f"{shown} and {len(items) - _NAMED_MAX} more"
