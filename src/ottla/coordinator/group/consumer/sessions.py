"""Timers of the members of consumer groups. A member whose timer expires is removed from the group.

Timers, each per member:
- session: the maximum time between two heartbeats. A static member that left temporarily must return within it;
- revocation: the time to revoke partitions, from the response that requested it;
- join, sync: for members of the classic protocol, the time to join again during a rebalance, and to send SyncGroup
  after having joined.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.group.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.transitions import MemberState
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.runtime.decision import Decision

Fence = Callable[[ConsumerGroup, ConsumerMember], Decision[None]]
TimerName = tuple[str, str, str]


def session_timer(group_id: str, member_id: str) -> TimerName:
    return "consumer session", group_id, member_id


def revocation_timer(group_id: str, member_id: str) -> TimerName:
    return "consumer revocation", group_id, member_id


def join_timer(group_id: str, member_id: str) -> TimerName:
    return "consumer join", group_id, member_id


def sync_timer(group_id: str, member_id: str) -> TimerName:
    return "consumer sync", group_id, member_id


class Sessions:
    """The timers of all members. `fence` decides the removal of a member."""

    __slots__ = ("_context", "_fence")

    def __init__(self, context: GroupContext, fence: Fence) -> None:
        self._context = context
        self._fence = fence

    def expect_heartbeat(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """Restart the session timer; members of the classic protocol have their own timeout."""
        if timeout_ms is None:
            timeout_ms = self._context.consumer_settings(group_id).session_timeout_ms
        self._schedule(session_timer(group_id, member_id), timeout_ms)

    def expect_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """Start the revocation timer. It applies only while the member stays at its epoch."""
        name, epoch = revocation_timer(group_id, member.member_id), member.epoch
        self._schedule(name, member.rebalance_timeout_ms, lambda now: now.epoch == epoch)

    def expect_join(self, group_id: str, member: ConsumerMember) -> None:
        """Start the join timer of a member of the classic protocol, unless it is already running."""
        name = join_timer(group_id, member.member_id)
        if not self._context.timers.is_scheduled(name):
            self._schedule(name, member.rebalance_timeout_ms)

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._schedule(sync_timer(group_id, member_id), timeout_ms)

    def has_joined(self, group_id: str, member_id: str) -> None:
        self._context.timers.cancel(join_timer(group_id, member_id))

    def has_synced(self, group_id: str, member_id: str) -> None:
        self._context.timers.cancel(sync_timer(group_id, member_id))

    def after_step(self, group_id: str, member: ConsumerMember) -> None:
        """Start or cancel the revocation timer after a reconciliation step."""
        if member.uses_classic_protocol:
            return
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.expect_revocation(group_id, member)
        else:
            self._context.timers.cancel(revocation_timer(group_id, member.member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        """Cancel all timers of a member."""
        for timer in (session_timer, revocation_timer, join_timer, sync_timer):
            self._context.timers.cancel(timer(group_id, member_id))

    def resume(self, group: ConsumerGroup) -> None:
        """Start the timers of all members after the group was loaded."""
        for member in group.members.values():
            own_ms = member.session_timeout_ms if member.uses_classic_protocol else None
            self.expect_heartbeat(group.group_id, member.member_id, own_ms)
            if member.state is MemberState.UNREVOKED_PARTITIONS:
                self.expect_revocation(group.group_id, member)

    def _schedule(
        self, name: TimerName, timeout_ms: int, applies: Callable[[ConsumerMember], bool] = lambda _: True
    ) -> None:
        _, group_id, member_id = name

        def on_timeout() -> Decision[None]:
            group = self._context.groups.get(group_id)
            member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
            if not isinstance(group, ConsumerGroup) or member is None or not applies(member):
                return Decision(None)
            return self._fence(group, member)

        self._context.timers.schedule(name, timeout_ms, on_timeout)
