"""Plan of a secured cluster: addresses and settings of each node, before any credentials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.local.cluster import MIN_IN_SYNC, REPLICATION_MAX, voter_count
from ottla.local.secure.folder import CLIENTS, CONTROLLER, NODES, NodePlan

_PORTS: Final = 3
"""Ports of one node: for clients, for other brokers, for the quorum."""


def plan_nodes(hosts: Sequence[str], port: int, data: Path) -> tuple[list[str], list[NodePlan]]:
    """The addresses for clients, and one plan per host. Nodes on the same host get consecutive ports."""
    firsts: list[int] = []
    for index, host in enumerate(hosts):
        firsts.append(port + _PORTS * hosts[:index].count(host))
    count = len(hosts)
    voters = range(voter_count(count))
    quorum = ",".join(f"{each}@{_bracketed(hosts[each])}:{firsts[each] + 2}" for each in voters)
    plans = []
    for node_id, (host, first) in enumerate(zip(hosts, firsts, strict=True)):
        listeners = [f"{CLIENTS}://{_bracketed(host)}:{first}", f"{NODES}://{_bracketed(host)}:{first + 1}"]
        own = (
            [*listeners, f"{CONTROLLER}://{_bracketed(host)}:{first + 2}"] if node_id in voters else listeners
        )
        shared = hosts.count(host) > 1
        settings = {
            "node.id": str(node_id),
            "process.roles": "broker,controller" if node_id in voters else "broker",
            "listeners": ",".join(own),
            "advertised.listeners": ",".join(listeners),
            "controller.quorum.voters": quorum,
            "log.dirs": str(data / f"node-{node_id}" if shared else data),
            "default.replication.factor": str(min(REPLICATION_MAX, count)),
            "min.insync.replicas": str(MIN_IN_SYNC if count >= REPLICATION_MAX else 1),
        }
        plans.append(NodePlan(node_id, _names(host), settings))
    return [f"{_bracketed(host)}:{first}" for host, first in zip(hosts, firsts, strict=True)], plans


def _names(host: str) -> tuple[str, ...]:
    return (host, "127.0.0.1") if host == "localhost" else (host,)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
