"""Online conversion of groups between the classic and the consumer protocol (KIP-848).

Upgrade: the first member of the consumer protocol that joins a classic group of consumers converts it to a consumer
group. The other members stay with their partitions, at an epoch equal to their generation, and continue to use the
classic protocol. Their waiting requests fail with REBALANCE_IN_PROGRESS, so that they join again.

Downgrade: when the last member of the consumer protocol leaves, or a static one returns with the classic protocol,
the remaining group becomes a classic group whose generation is the group's epoch. Its members rebalance.

In both directions the tombstones of the old group and the records of the new one are appended in one batch.
`group.consumer.migration.policy` determines which directions are enabled.
"""

from __future__ import annotations

from ottla.base.errors import ApiError, ErrorCode, RemoteProtocolError
from ottla.base.ids import Uuid
from ottla.coordinator.group.assignors.spec import NOTHING
from ottla.coordinator.group.classic.classic_group import ClassicGroup
from ottla.coordinator.group.classic.classic_member import ClassicMember
from ottla.coordinator.group.classic.classic_records import group_record
from ottla.coordinator.group.classic.rebalance import Rebalances
from ottla.coordinator.group.classic.transitions import ClassicState
from ottla.coordinator.group.consumer import consumer_records
from ottla.coordinator.group.consumer.consumer_group import FIRST_EPOCH, PROTOCOL_TYPE, ConsumerGroup
from ottla.coordinator.group.consumer.consumer_member import ConsumerMember
from ottla.coordinator.group.consumer.replay import replay_into
from ottla.coordinator.group.consumer.sessions import Sessions
from ottla.coordinator.group.consumer.subscription.metadata_hash import MetadataHashes
from ottla.coordinator.group.context import GroupContext
from ottla.coordinator.group.migration import embedded_protocol
from ottla.coordinator.group.records import ClassicMemberMetadata, ClassicProtocol
from ottla.coordinator.runtime.decision import Decision, LogRecord

DISABLED = "disabled"
_UPGRADE = ("upgrade", "bidirectional")
_DOWNGRADE = ("downgrade", "bidirectional")


# Upgrade


def upgraded(
    context: GroupContext,
    group: ClassicGroup,
    hashes: MetadataHashes,
    sessions: Sessions,
    records: list[LogRecord],
) -> ConsumerGroup:
    """Convert a classic group with members. The result is not in the table until its records are replayed.

    Until then the classic group continues: the request may still be refused.
    """
    _check_upgrade(context, group)
    try:
        members = [_consumer_member(context, group, member) for member in group.members.values()]
    except RemoteProtocolError:
        raise _refused(group, "the embedded consumer protocol is malformed") from None
    made = ConsumerGroup(group.group_id)
    epoch = _epoch_of(group)
    topics = {topic for member in members for topic in member.topics}
    created = [
        *(consumer_records.subscription(group.group_id, member) for member in members),
        consumer_records.group_epoch(group.group_id, epoch, hashes.of(topics, context.image)),
        *(
            consumer_records.target(
                group.group_id,
                member.member_id,
                {topic: frozenset(owned) for topic, owned in member.assigned.items()},
            )
            for member in members
        ),
        consumer_records.target_epoch(group.group_id, epoch, 0),
        *(consumer_records.current_assignment(group.group_id, member) for member in members),
    ]
    for record in created:
        replay_into(made, record.key, record.value)
    group.is_upgraded = True
    for member in members:
        sessions.expect_heartbeat(group.group_id, member.member_id, member.session_timeout_ms)
    records.extend(group.tombstones())
    records.extend(created)
    return made


def _epoch_of(group: ClassicGroup) -> int:
    """The generation, or the first epoch if the group has no generation yet, because epoch 0 means joining."""
    return max(group.generation, FIRST_EPOCH)


def _refused(group: ClassicGroup, reason: str) -> ApiError:
    text = f"Cannot upgrade classic group {group.group_id} to consumer group because {reason}."
    return ApiError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _check_upgrade(context: GroupContext, group: ClassicGroup) -> None:
    if context.settings.consumer_migration_policy not in _UPGRADE:
        raise _refused(group, "online upgrade is disabled")
    if not group.uses_consumer_protocol:
        raise _refused(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > context.settings.consumer_max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size")


def _consumer_member(context: GroupContext, group: ClassicGroup, member: ClassicMember) -> ConsumerMember:
    name = group.protocol_name
    subscription = embedded_protocol.read_subscription(
        member.protocols[0][1] if name is None else member.metadata(name)
    )
    owned: dict[Uuid, frozenset[int]] = {}
    if member.assignment:
        assignment = embedded_protocol.read_assignment(member.assignment)
        if assignment.user_data:
            raise _refused(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a "
                "default assignor before re-attempting the upgrade",
            )
        owned = embedded_protocol.by_topic_id(assignment.assigned_partitions, context.image)
    epoch = _epoch_of(group)
    return ConsumerMember(
        member.member_id,
        epoch=epoch,
        previous_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=frozenset(subscription.topics),
        assigned={topic: dict.fromkeys(sorted(owned[topic]), epoch) for topic in sorted(owned)},
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=[
                ClassicProtocol(name=each, metadata=metadata) for each, metadata in member.protocols
            ],
        ),
    )


# Downgrade


def can_downgrade_without(context: GroupContext, group: ConsumerGroup, leaving: list[ConsumerMember]) -> bool:
    """Whether the group becomes a classic group when these members leave."""
    staying = len(group.members) - len(leaving)
    return staying > 0 and group.all_classic_without(leaving) and _may_be_classic(context, staying)


def can_downgrade_replacing(context: GroupContext, group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether the group becomes a classic group when this static member returns with the classic protocol."""
    if member.uses_classic_protocol or not group.all_classic_without([member]):
        return False
    return _may_be_classic(context, len(group.members))


def _may_be_classic(context: GroupContext, size: int) -> bool:
    settings = context.settings
    return settings.consumer_migration_policy in _DOWNGRADE and size <= settings.max_size


def downgraded(
    context: GroupContext,
    group: ConsumerGroup,
    leaving: list[ConsumerMember],
    *,
    joining: ConsumerMember | None = None,
    rebalance: bool = True,
) -> list[LogRecord]:
    """Records that convert the group to a classic group without the leaving members.

    `joining` replaces the static member with its instance id. When the records are replayed, the timers of the
    classic group start and its members must join again.
    """
    replaced = None if joining is None else group.static_member(joining.instance_id)
    leaving_ids = {member.member_id for member in leaving}
    staying = [member for member in group.members.values() if member.member_id not in leaving_ids]
    if joining is not None:
        staying = [member for member in staying if member is not replaced] + [joining]
    made = ClassicGroup(
        group.group_id,
        context.clock,
        state=ClassicState.STABLE,
        generation=group.epoch,
        protocol_type=PROTOCOL_TYPE,
        state_since_ms=context.clock.now_ms(),
    )
    for member in staying:
        made.add(_classic_member(member))
    made.protocol_name = made.select_protocol()
    assignment: dict[str, bytes] = {}
    for classic in made.members.values():
        is_successor = joining is not None and classic.member_id == joining.member_id
        owner = replaced.member_id if is_successor and replaced is not None else classic.member_id
        version = embedded_protocol.version_of(classic.metadata(made.protocol_name))
        target = group.targets.get(owner, NOTHING)
        assignment[classic.member_id] = embedded_protocol.write_assignment(target, context.image, version)
    _start_when_replayed(context, group.group_id, rebalance=rebalance)
    ids = [
        joining.member_id if joining is not None and member is replaced else member.member_id
        for member in group.members.values()
    ]
    tombstones = consumer_records.group_tombstones(group.group_id, ids, group.subscriptions.resolved)
    return [*tombstones, group_record(made, assignment)]


def _classic_member(member: ConsumerMember) -> ClassicMember:
    classic = member.classic or ClassicMemberMetadata()
    return ClassicMember(
        member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocol_type=PROTOCOL_TYPE,
        protocols=tuple((each.name, each.metadata) for each in classic.supported_protocols),
    )


def _start_when_replayed(context: GroupContext, group_id: str, *, rebalance: bool) -> None:
    rebalances = Rebalances(context)

    def start() -> Decision[None]:
        group = context.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            return Decision(None)
        for member in group.members.values():
            rebalances.restart_session_timer(group, member)
        return Decision(None, rebalances.prepare(group) if rebalance and group.can_rebalance else [])

    context.timers.schedule(("downgraded", group_id), 0, start)
