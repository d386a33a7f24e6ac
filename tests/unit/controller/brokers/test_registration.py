"""Registration of brokers and controllers, and removal of a broker."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.brokers.registration import (
    decide_register_broker,
    decide_register_controller,
    decide_unregister,
)
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import NO_LEADER, Endpoint, ResourceType
from ottla.metadata.records import ConfigRecord, RegisterBrokerRecord
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
)
from ottla.wire.messages.controller_registration import (
    Listener as ControllerListener,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.support.controller import ControllerBench, cluster, directory_of
from tests.support.metadata import broker_record, features, replayed, topic_records

UNSYNCED = {"flush.messages": "10000"}


def test_new_broker_is_registered_fenced_under_the_offset_of_its_record() -> None:
    bench = ControllerBench(features())
    before = bench.image.offset
    response = bench.register(7, rack="r")
    broker = bench.image.brokers[7]
    assert response.broker_epoch == broker.epoch == before + 1
    assert (broker.fenced, broker.rack, broker.log_dirs) == (True, "r", (directory_of(7),))
    assert broker.endpoints == (Endpoint("PLAINTEXT", "h", 9007),)
    assert {f.name: f.max_version for f in broker.features}["metadata.version"] == 30


def test_same_process_keeps_its_epoch() -> None:
    bench = ControllerBench(features())
    incarnation = uuid.UUID(int=77)
    first = bench.register(1, incarnation_id=incarnation)
    offset = bench.image.offset
    assert bench.register(1, incarnation_id=incarnation).broker_epoch == first.broker_epoch
    assert bench.image.offset == offset, "a repeated registration changes nothing"
    bench.heartbeat(1)
    moved = [Listener(name="PLAINTEXT", host="other", port=1)]
    assert bench.register(1, incarnation_id=incarnation, listeners=moved).broker_epoch == first.broker_epoch
    assert bench.image.brokers[1].endpoints[0].host == "other"
    assert not bench.image.brokers[1].fenced


@pytest.mark.parametrize(
    ("changes", "attribute"),
    [
        ({"log_dirs": [directory_of(1), directory_of(1, 1)]}, "log_dirs"),
        ({"rack": "other"}, "rack"),
        (
            {
                "features": [
                    Feature(name="metadata.version", min_supported_version=7, max_supported_version=31),
                    Feature(
                        name="eligible.leader.replicas.version",
                        min_supported_version=0,
                        max_supported_version=1,
                    ),
                ]
            },
            "features",
        ),
    ],
)
def test_each_change_of_the_same_process_is_registered(changes: dict[str, Any], attribute: str) -> None:
    bench = ControllerBench(features())
    bench.register(1, incarnation_id=uuid.UUID(int=77))
    before = getattr(bench.image.brokers[1], attribute)
    bench.register(1, incarnation_id=uuid.UUID(int=77), **changes)
    assert getattr(bench.image.brokers[1], attribute) != before


def test_the_same_process_stays_in_its_controlled_shutdown() -> None:
    bench = cluster()
    incarnation = bench.image.brokers[1].incarnation_id
    bench.heartbeat(1)
    bench.heartbeat(1, want_shut_down=True)
    assert bench.image.brokers[1].in_controlled_shutdown
    bench.register(1, incarnation_id=incarnation, rack="other")
    assert bench.image.brokers[1].rack == "other"
    assert bench.image.brokers[1].in_controlled_shutdown


def test_the_registration_is_the_last_record_of_its_batch() -> None:
    bench = cluster()
    epoch = bench.register(1).broker_epoch
    assert epoch == bench.image.offset > bench.image.brokers[2].epoch
    assert bench.partition().leader == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"cluster_id": "another"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"log_dirs": []}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid.UUID(int=1)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [uuid.UUID(int=99)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_of(9), directory_of(9)]}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": [directory_of(2)]}, ErrorCode.INVALID_REGISTRATION),
        ({"features": []}, ErrorCode.INVALID_REGISTRATION),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (
            {"listeners": [Listener(name="PLAINTEXT", host="h", port=1, security_protocol=4)]},
            ErrorCode.INVALID_REGISTRATION,
        ),
        (
            {"features": [Feature(name="group.version", min_supported_version=1, max_supported_version=1)]},
            ErrorCode.UNSUPPORTED_VERSION,  # what the broker names is checked before what is missing
        ),
        (
            {
                "features": [
                    Feature(name="metadata.version", min_supported_version=1, max_supported_version=29)
                ]
            },
            ErrorCode.UNSUPPORTED_VERSION,
        ),
        (
            {
                "features": [
                    Feature(name="metadata.version", min_supported_version=7, max_supported_version=30)
                ]
            },
            ErrorCode.UNSUPPORTED_VERSION,  # it does not support the finalized level of eligible leader replicas
        ),
        (
            {
                "features": [
                    Feature(name="metadata.version", min_supported_version=7, max_supported_version=30),
                    Feature(
                        name="eligible.leader.replicas.version",
                        min_supported_version=0,
                        max_supported_version=1,
                    ),
                    Feature(name="group.version", min_supported_version=1, max_supported_version=1),
                ]
            },
            ErrorCode.UNSUPPORTED_VERSION,  # it needs a feature that the cluster has not enabled
        ),
    ],
)
def test_invalid_registrations(changes: dict[str, Any], code: ErrorCode) -> None:
    bench = cluster()
    with pytest.raises(ApiError) as refused:
        bench.register(4, **changes)
    assert refused.value.code is code
    assert 4 not in bench.image.brokers


@pytest.mark.parametrize(
    ("highest", "level", "is_accepted"), [(0, 0, True), (1, 0, True), (1, 1, True), (0, 1, False)]
)
def test_a_broker_must_support_the_version_of_the_quorum(highest: int, level: int, is_accepted: bool) -> None:
    bench = cluster()
    bench.kraft_version = level
    named = {each.name: (each.min_version, each.max_version) for each in SUPPORTED_FEATURES}
    named["kraft.version"] = (0, highest)
    listed = [
        Feature(name=name, min_supported_version=low, max_supported_version=high)
        for name, (low, high) in named.items()
    ]
    refusal = contextlib.nullcontext() if is_accepted else pytest.raises(ApiError, match=r"kraft\.version")
    with refusal:
        bench.register(4, features=listed)
    assert (4 in bench.image.brokers) == is_accepted


# Two processes with one id


def refused_as_duplicate(bench: ControllerBench, **changes: Any) -> bool:
    try:
        bench.register(1, **changes)
    except ApiError as error:
        return error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    return False


ELSEWHERE = {"log_dirs": [uuid.UUID(int=999_999)]}


def test_a_live_broker_is_not_replaced() -> None:
    bench = cluster()
    bench.heartbeat(1)
    bench.now += 2.9
    assert refused_as_duplicate(bench, **ELSEWHERE)
    bench.now += 0.2
    assert not refused_as_duplicate(bench, **ELSEWHERE)


def test_the_same_place_is_taken_over_after_a_short_silence() -> None:
    bench = cluster()
    bench.register(1)
    bench.heartbeat(1)
    bench.now += 1.4
    assert refused_as_duplicate(bench)
    bench.now += 0.2
    assert not refused_as_duplicate(bench)


def test_other_listeners_are_another_place() -> None:
    bench = cluster()
    bench.register(1)
    bench.heartbeat(1)
    bench.now += 2.9
    assert refused_as_duplicate(bench, listeners=[Listener(name="PLAINTEXT", host="h", port=1)])
    assert not refused_as_duplicate(bench)


def test_other_directories_are_another_place() -> None:
    bench = cluster()
    bench.register(1)
    bench.heartbeat(1)
    bench.now += 2.9
    assert refused_as_duplicate(bench, **ELSEWHERE)
    assert not refused_as_duplicate(bench)


def test_a_live_broker_that_is_fenced_is_not_replaced() -> None:
    bench = cluster()
    bench.register(1)
    for _ in range(2):
        assert bench.heartbeat(1, want_fence=True).is_fenced
        assert refused_as_duplicate(bench, **ELSEWHERE)


def test_a_broker_that_has_shut_down_is_replaced_at_once() -> None:
    bench = cluster(assignments=[[2, 3]])
    bench.heartbeat(1)
    assert bench.heartbeat(1, want_shut_down=True).should_shut_down
    assert not refused_as_duplicate(bench, **ELSEWHERE)


def test_a_broker_that_was_unregistered_is_replaced_at_once() -> None:
    bench = cluster()
    bench.heartbeat(1)
    bench.apply(decide_unregister(bench.view, bench.sessions, UnregisterBrokerRequest(broker_id=1)))
    assert not bench.sessions.is_alive(1, 1, bench.now, is_same_place=False)


def test_a_broker_of_which_this_controller_has_heard_nothing_is_replaced() -> None:
    bench = cluster()
    bench.sessions.start(bench.image.brokers.values(), bench.now)
    assert not refused_as_duplicate(bench, **ELSEWHERE)


def test_a_broker_that_was_lost_is_replaced() -> None:
    bench = cluster()
    bench.heartbeat(1)
    bench.sessions.end(1)
    assert not refused_as_duplicate(bench, **ELSEWHERE)


# What the predecessor had


def test_no_other_leader_is_elected_when_an_eligible_broker_returns() -> None:
    """The leader of an unclean election would not have the records that the returning broker has."""
    bench = cluster(min_insync_replicas="2")
    for broker_id in (3, 2, 1):
        bench.fence(broker_id)
    bench.heartbeat(3)
    unclean = {"name": "unclean.leader.election.enable", "value": "true"}
    bench.replay(ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", **unclean))
    bench.sessions.end(1)
    bench.register(1)
    assert (bench.partition().leader, bench.partition().eligible_leader_replicas) == (NO_LEADER, (2, 1))
    bench.heartbeat(1)
    assert (bench.partition().leader, bench.partition().leader_recovery_state) == (1, 0)


def test_clean_stop_leaves_the_isr_and_stays_eligible() -> None:
    bench = cluster(min_insync_replicas="3")
    bench.register(1)
    partition = bench.partition()
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (2, (2, 3), (1,))
    assert partition.leader_epoch == 1


def test_clean_stop_stays_eligible_although_records_are_not_synced() -> None:
    bench = cluster(min_insync_replicas="3", configs=UNSYNCED)
    bench.register(1)
    assert bench.partition().eligible_leader_replicas == (1,)


@pytest.mark.parametrize(("configs", "eligible"), [({}, (1,)), (UNSYNCED, ())])
def test_unclean_stop_stays_eligible_if_records_are_synced(
    configs: dict[str, str], eligible: tuple[int, ...]
) -> None:
    bench = cluster(min_insync_replicas="3", configs=configs)
    bench.register(1, previous_broker_epoch=-1)
    partition = bench.partition()
    assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (2, (2, 3), eligible)


def test_the_marker_of_an_earlier_clean_stop_does_not_make_a_stop_clean() -> None:
    bench = cluster(min_insync_replicas="3", configs=UNSYNCED)
    earlier = bench.image.brokers[1].epoch
    bench.restart(1, clean=True)
    assert bench.alter_partition([2, 3, 1]).error_code == 0
    bench.sessions.end(1)
    bench.register(1, previous_broker_epoch=earlier)
    assert bench.partition().eligible_leader_replicas == ()


def test_unclean_stop_of_an_eligible_replica() -> None:
    for configs, eligible in (({}, (1,)), (UNSYNCED, ())):
        bench = cluster(min_insync_replicas="3", configs=configs)
        bench.fence(1)
        assert bench.partition().eligible_leader_replicas == (1,)
        bench.register(1, previous_broker_epoch=-1)
        assert bench.partition().eligible_leader_replicas == eligible


def test_settings_of_one_broker_decide_whether_it_syncs() -> None:
    bench = cluster(min_insync_replicas="3", log_flush_interval_messages="500")
    bench.register(1, previous_broker_epoch=-1)
    assert bench.partition().eligible_leader_replicas == ()


def test_single_replica_leads_again_after_an_unclean_stop() -> None:
    for configs, recovering in (({}, 0), (UNSYNCED, 1)):
        bench = cluster(1, [[1]], configs=configs)
        epoch = bench.partition().leader_epoch
        bench.register(1, previous_broker_epoch=-1)
        assert bench.partition().leader == NO_LEADER
        bench.heartbeat(1)
        partition = bench.partition()
        assert (partition.leader, partition.isr) == (1, (1,))
        assert partition.leader_epoch > epoch
        assert partition.leader_recovery_state == recovering


def test_without_eligible_leader_replicas_the_last_member_stays_in_the_isr() -> None:
    levels = features(**{"eligible.leader.replicas.version": 0})
    bench = ControllerBench([*levels, broker_record(1, epoch=1), *topic_records("t", [[1]])])
    bench.register(1, previous_broker_epoch=-1)
    assert (bench.partition().leader, bench.partition().isr) == (NO_LEADER, (1,))
    bench.heartbeat(1)
    assert (bench.partition().leader, bench.partition().isr) == (1, (1,))


@pytest.mark.parametrize("min_insync_replicas", ["1", "2"])
@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_cluster_recovers_after_a_power_failure_of_all_nodes(
    min_insync_replicas: str, order: tuple[int, ...]
) -> None:
    bench = cluster(min_insync_replicas=min_insync_replicas)
    for broker_id in order:
        bench.register(broker_id, previous_broker_epoch=-1)
    assert bench.partition().leader == NO_LEADER
    for broker_id in order:
        bench.heartbeat(broker_id)
    partition = bench.partition()
    assert partition.leader != NO_LEADER
    assert partition.leader_recovery_state == 0, "no unclean election"


@pytest.mark.parametrize("survivor", [1, 2, 3])
def test_any_replica_leads_if_all_failed_at_one_moment(survivor: int) -> None:
    bench = cluster(min_insync_replicas="2")
    bench.fence(1, 2, 3)
    assert set(bench.partition().eligible_leader_replicas) == {1, 2, 3}
    bench.restart(survivor, clean=False)
    assert (bench.partition().leader, bench.partition().leader_recovery_state) == (survivor, 0)


# Others


def test_controllers_register() -> None:
    listener = ControllerListener(name="CONTROLLER", host="h", port=9093)
    request = ControllerRegistrationRequest(
        controller_id=3, incarnation_id=uuid.UUID(int=4), listeners=[listener]
    )
    image = replayed(decide_register_controller(replayed(features()), request).records)
    assert image.controllers[3].endpoints == (Endpoint("CONTROLLER", "h", 9093),)


def test_a_controller_with_an_unknown_security_protocol_is_refused() -> None:
    listener = ControllerListener(name="CONTROLLER", host="h", port=9093, security_protocol=4)
    with pytest.raises(ApiError) as refused:
        decide_register_controller(
            replayed(features()), ControllerRegistrationRequest(controller_id=3, listeners=[listener])
        )
    assert refused.value.code is ErrorCode.INVALID_REGISTRATION


def test_unregistered_broker_leaves_every_isr_and_elr() -> None:
    bench = cluster(min_insync_replicas="3", assignments=[[1, 2, 3], [2, 1, 3]])
    bench.fence(2)
    assert bench.partition().eligible_leader_replicas == (2,)
    decision = decide_unregister(bench.view, bench.sessions, UnregisterBrokerRequest(broker_id=2))
    assert decision.response == UnregisterBrokerResponse()
    bench.apply(decision)
    assert 2 not in bench.image.brokers
    for index in (0, 1):
        assert 2 not in bench.partition(index=index).isr
        assert bench.partition(index=index).eligible_leader_replicas == ()
    with pytest.raises(ApiError) as refused:
        decide_unregister(bench.view, bench.sessions, UnregisterBrokerRequest(broker_id=2))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_records_of_a_registration_end_with_it() -> None:
    bench = cluster()
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="c",
        incarnation_id=uuid.UUID(int=6),
        log_dirs=[directory_of(1)],
        features=[
            Feature(name="metadata.version", min_supported_version=7, max_supported_version=30),
            Feature(
                name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1
            ),
        ],
    )
    records, _ = decide_register_broker(
        bench.view, bench.sessions, request, cluster_id="", now=0.0, next_offset=50, kraft_version=0
    )
    assert isinstance(records[-1], RegisterBrokerRecord)
    assert records[-1].broker_epoch == 50 + len(records) - 1
    assert len(records) == 2
