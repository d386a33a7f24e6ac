"""Checker of replay: a coordinator that is rebuilt from its log has the same state as the one that serves.

Only state that is in the log is compared: committed and pending offsets, consumer groups, transactions, and classic
groups that are stable (between two generations their state is in memory only). Only idle coordinators are compared:
those without an append in progress.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ottla.base.errors import ApiError
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.group_state_machine import GroupStateMachine
from ottla.coordinator.runtime.loader import replay_batches
from ottla.coordinator.runtime.runtime import Runtime
from ottla.coordinator.runtime.shard import Shard, ShardState
from ottla.coordinator.runtime.timers import TimerOperation
from ottla.coordinator.txn.txn_state_machine import TxnStateMachine
from ottla.node.build import Node
from ottla.testing.sim.kernel.events import Kernel


class NoTimers:
    """Timers of a coordinator that only replays."""

    def schedule(self, name: Hashable, delay_ms: int, operation: TimerOperation) -> None:
        """Do nothing: no operation is run."""

    def cancel(self, name: Hashable) -> None:
        """Do nothing: no operation is scheduled."""

    def is_scheduled(self, name: Hashable) -> bool:
        return False


def compare(kernel: Kernel, node: Node) -> None:
    """Compare all idle coordinators of a node with their logs."""
    if node.broker is None:
        return
    coordinators = node.broker.coordinators
    for runtime in (coordinators.groups.runtime, coordinators.transactions.runtime):
        for partition, shard in runtime._shards.items():
            if _is_idle(shard, runtime, partition):
                kernel.count("replays compared")
                _compare(kernel, runtime, shard, partition)


def _is_idle(shard: Shard[Any], runtime: Runtime[Any], partition: int) -> bool:
    if shard.state is not ShardState.ACTIVE or shard._batch is not None:
        return False
    try:
        led = partition, shard.leader_epoch
        return runtime.log.committed_offset(*led) == runtime.log.end_offset(*led)
    except ApiError:
        return False  # the log directory has failed


def _compare(kernel: Kernel, runtime: Runtime[Any], shard: Shard[Any], partition: int) -> None:
    led = partition, shard.leader_epoch
    next_incarnation = runtime.make(*led, NoTimers())
    for _ in replay_batches(next_incarnation, runtime.log.batches(*led), runtime.table):
        pass
    served, stored = _durable_state(shard.machine), _durable_state(next_incarnation)
    for name in sorted(served.keys() | stored.keys()):
        between = name in served and served[name] is None
        kernel.check(
            between or served.get(name) == stored.get(name),
            "state is a function of the log",
            f"{runtime.topic}-{partition} {name}: serves {served.get(name)}, the log contains {stored.get(name)}",
        )


def _durable_state(machine: Any) -> dict[str, Any]:
    """What the log keeps of a machine, by name."""
    if isinstance(machine, TxnStateMachine):
        return {f"transaction {name}": each for name, each in machine.table.items()}
    found: dict[str, Any] = {}
    if isinstance(machine, GroupStateMachine):
        store = machine.offsets.store
        found |= {f"offsets {group}": topics for group, topics in store.committed.by_group.items()}
        found |= {
            f"pending {producer} {group}": topics
            for producer, table in store._pending.items()
            for group, topics in table.by_group.items()
        }
        for group_id, group in machine.context.groups.items():
            found[f"group {group_id}"] = _group(group)
    return found


def _group(group: object) -> Any:
    """The part of a group that is in the log; None while the group is between two generations."""
    if isinstance(group, ConsumerGroup):
        return (group.epoch, group.metadata_hash, group.target_epoch, group.targets, group.members)
    if isinstance(group, ClassicGroup) and group.state is ClassicState.STABLE:
        members = {
            member.member_id: (member.instance_id, member.session_timeout_ms, member.assignment)
            for member in group.members.values()
        }
        return (group.generation, group.protocol_name, members)
    return None
