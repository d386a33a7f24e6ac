"""Fetches of followers from a leader: what they read, what they report, what wakes them."""

from __future__ import annotations

import msgspec
import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.replication.partition import Partition
from tests.support.replica_fetches import TOPIC_ID, Broker, Follower


def test_a_follower_reads_beyond_the_high_watermark_and_its_next_fetch_commits() -> None:
    broker = Broker()
    two, three = Follower(broker, 2), Follower(broker, 3)
    waiter = broker.append()
    broker.write()
    for follower in (two, three):
        follower.fetch({0: 0})
        received = follower.received()[0]
        assert received.records
        assert received.high_watermark == 0
    two.fetch({0: 1})
    assert waiter.errors == []
    three.fetch({0: 1})
    assert waiter.errors == [ErrorCode.NONE]
    assert broker.partitions[0].high_watermark == 1


def test_what_the_leader_has_not_synced_is_not_acknowledged() -> None:
    broker = Broker()
    waiter = broker.append()
    for replica_id in (2, 3):
        Follower(broker, replica_id).fetch({0: 1})
    assert broker.partitions[0].high_watermark == 0
    assert waiter.errors == []
    broker.write()
    assert waiter.errors == [ErrorCode.NONE]


def test_a_consumer_does_not_read_what_followers_lack() -> None:
    broker = Broker()
    consumer = Follower(broker, -1)
    broker.append()
    broker.write()
    consumer.fetch({0: 0}, wait_ms=0)
    assert not consumer.received()[0].records


def test_a_waiting_follower_is_notified_when_the_leader_has_written() -> None:
    broker = Broker()
    follower = Follower(broker)
    follower.fetch({0: 0})
    assert follower.waits
    broker.append()
    assert follower.waits
    broker.write()
    assert follower.received()[0].records


def test_a_waiting_follower_gets_its_response_when_it_sends_another_request() -> None:
    broker = Broker()
    follower = Follower(broker)
    follower.fetch({0: 0})
    assert follower.waits
    assert follower.connection.on_next_request is not None
    follower.connection.on_next_request()
    follower.received()
    assert follower.connection.on_next_request is None


def test_the_high_watermark_alone_does_not_end_a_wait_but_is_in_the_next_response() -> None:
    broker = Broker()
    two, three = Follower(broker, 2), Follower(broker, 3)
    broker.append()
    broker.write()
    for follower in (two, three):
        follower.fetch({0: 0})
        follower.received()
    two.fetch({0: 1})
    three.fetch({0: 1})
    broker.turn()
    assert two.waits
    broker.expire()
    assert two.received()[0].high_watermark == 1


def test_followers_copy_records_while_the_leader_syncs_them() -> None:
    broker = Broker()
    two, three, consumer = Follower(broker, 2), Follower(broker, 3), Follower(broker, -1)
    for follower in (two, three, consumer):
        follower.fetch({0: 0})
    waiter = broker.append()
    assert two.waits
    broker.start_write()
    copied = [bytes(follower.received()[0].records or b"") for follower in (two, three)]
    assert consumer.waits
    for follower in (two, three):
        follower.fetch({0: 1})  # they have synced; the leader has not
    assert broker.partitions[0].log.committable_offset == 0
    assert waiter.errors == []
    broker.append()
    broker.write()
    assert waiter.errors == [ErrorCode.NONE]
    written = broker.partitions[0].log.read_bytes(0, 1 << 20, upto=1)
    assert copied == [written, written]
    assert consumer.received()[0].high_watermark == 1
    assert two.received()[0].records


def test_a_follower_that_lags_does_not_copy_what_is_being_written() -> None:
    broker = Broker()
    broker.append()
    broker.write()
    broker.append()
    broker.start_write()
    follower = Follower(broker)
    follower.fetch({0: 0})
    assert bytes(follower.received()[0].records or b"") == broker.partitions[0].log.read_bytes(
        0, 1 << 20, upto=1
    )


def test_a_write_that_does_not_fit_into_the_response_is_copied_when_it_is_done() -> None:
    broker = Broker()
    broker.append()
    broker.start_write()
    log = broker.partitions[0].log
    assert log.read_staged(10) is None
    staged = log.read_staged(1000)
    assert staged is not None
    assert staged.end_offset == 1
    broker.write()
    assert log.read_staged(1000) is None


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(4, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.NONE), (6, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_a_fetch_of_another_leader_epoch_is_refused_and_not_recorded(epoch: int, code: ErrorCode) -> None:
    broker = Broker()
    (partition,) = broker.partitions
    broker.append()
    broker.write()
    partition.become(broker.image(epoch=5, partition_epoch=1))
    for replica_id in (2, 3):
        follower = Follower(broker, replica_id)
        follower.fetch({0: 1}, epoch=epoch)
        if follower.waits:
            broker.expire()
        assert follower.received()[0].error_code == code
    assert partition.high_watermark == (0 if code else 1)


def test_a_fetch_of_a_newer_leader_epoch_waits_for_the_image() -> None:
    broker = Broker()
    (partition,) = broker.partitions
    broker.append()
    broker.write()
    follower = Follower(broker)
    follower.fetch({0: 0}, epoch=1)
    assert follower.waits
    partition.become(broker.image(epoch=1, partition_epoch=1))
    broker.turn()
    received = follower.received()[0]
    assert (received.error_code, bool(received.records)) == (0, True)


def test_a_waiting_fetch_ends_when_the_leadership_ends() -> None:
    broker = Broker()
    follower = Follower(broker)
    follower.fetch({0: 0})
    broker.partitions[0].become(broker.image(leader=2, epoch=1, partition_epoch=1))
    broker.turn()
    assert follower.received()[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_diverging_follower_is_not_recorded() -> None:
    broker = Broker()
    (partition,) = broker.partitions
    broker.append()
    broker.write()
    partition.become(broker.image(epoch=3, partition_epoch=1))
    broker.append()
    broker.write()
    follower = Follower(broker)
    follower.fetch({0: 2}, epoch=3, last_epoch=2)
    received = follower.received()[0]
    assert (received.diverging_epoch.epoch, received.diverging_epoch.end_offset) == (0, 1)
    assert not received.records
    broker.partitions[0].become(broker.image((1, 2), epoch=3, partition_epoch=2))
    assert partition.high_watermark == 0


def test_a_broker_without_a_replica_is_refused() -> None:
    broker = Broker()
    follower = Follower(broker, 9)
    follower.fetch({0: 0}, epoch=-1)
    assert follower.received()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    follower = Follower(broker, 9)
    follower.fetch({0: 0}, epoch=0, wait_ms=0)
    assert follower.received()[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_fetch_of_an_earlier_incarnation_is_refused() -> None:
    broker = Broker()
    follower = Follower(broker)
    follower.fetch({0: 0}, broker_epoch=19)
    assert follower.received()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("expires", [True, False])
def test_a_follower_is_recorded_once_per_request(expires: bool) -> None:
    broker = Broker()
    (partition,) = broker.partitions
    partition.become(broker.image((1, 2), partition_epoch=1))
    follower = Follower(broker, 2)
    broker.append()
    broker.write()
    follower.fetch({0: 1})
    broker.clock.seconds += 100
    if expires:
        broker.expire()
        follower.received()
    broker.append()
    broker.write()  # the response is made now at the latest, but says nothing about the follower
    broker.append()
    broker.write()
    follower.connection.responses.clear()
    follower.fetch({0: 2}, wait_ms=0)
    broker.clock.seconds += 1
    partition.check_isr()
    assert len(broker.alterations) == 1


def test_a_follower_without_a_session_waits_and_is_served() -> None:
    broker = Broker()
    follower = Follower(broker, session=False)
    follower.fetch({0: 0})
    assert follower.waits
    broker.append()
    broker.write()
    assert follower.received()[0].records
    assert not broker.partitions[0].replica_waiters


# Sessions


def count_reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    reads: list[int] = []
    original = Partition.read_for_replica

    def counted(partition: Partition, *args: int, **kwargs: int) -> object:
        reads.append(partition.index)
        return original(partition, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Partition, "read_for_replica", counted)
    return reads


def test_a_request_of_a_session_costs_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(partitions=20)
    follower = Follower(broker)
    reads = count_reads(monkeypatch)
    follower.fetch(dict.fromkeys(range(20), 0))
    assert sorted(reads) == list(range(20))
    assert follower.waits
    broker.expire()
    assert len(follower.received()) == 20
    reads.clear()
    follower.fetch({})
    assert reads == []
    broker.append(7)
    broker.write()
    assert set(reads) == {7}
    assert set(follower.received()) == {7}
    reads.clear()
    follower.fetch({7: 1})
    assert reads == [], "the follower has all records"
    broker.append(3)
    broker.write()
    assert set(reads) == {3}
    assert set(follower.received()) == {3, 7}, "also the offsets of the listed one"


def test_records_are_sent_again_until_the_follower_has_them() -> None:
    broker = Broker()
    follower = Follower(broker)
    broker.append()
    broker.write()
    follower.fetch({0: 0})
    assert follower.received()[0].records
    follower.fetch({})  # the follower could not append them
    assert follower.received()[0].records


def test_a_partition_that_fails_stays_in_the_responses() -> None:
    broker = Broker()
    broker.partitions[0].become(broker.image(leader=2, epoch=1, partition_epoch=1))
    follower = Follower(broker)
    for offsets in ({0: 0}, {}):
        follower.fetch(offsets, epoch=0)
        assert follower.received()[0].error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_a_forgotten_partition_is_no_longer_read() -> None:
    broker = Broker(partitions=2)
    follower = Follower(broker)
    follower.fetch({0: 0, 1: 0})
    broker.expire()
    follower.received()
    follower.fetch({}, forget=[0])
    broker.append(0)
    broker.write()
    assert follower.waits
    assert not broker.partitions[0].replica_waiters


def test_a_partition_that_appears_later_is_served_to_the_waiting_follower() -> None:
    broker = Broker(partitions=2)
    late = broker.partitions.pop()
    late.become(broker.image())
    follower = Follower(broker)
    follower.fetch({1: 0})
    assert follower.waits
    broker.partitions.append(late)
    broker.append(1)
    broker.write()
    broker.replica_sessions.appeared(late)
    broker.turn()
    assert follower.received()[1].records


def test_an_idle_follower_is_caught_up_until_its_last_fetch() -> None:
    """A follower that has all records does not list the partition: its requests alone keep it in the ISR."""
    broker = Broker()
    (partition,) = broker.partitions
    partition.become(broker.image((1, 2), partition_epoch=1))
    follower = Follower(broker)
    follower.fetch({0: 0})
    for _ in range(10):
        broker.clock.seconds += 20
        broker.expire()
        follower.connection.responses.clear()
        follower.fetch({})
    broker.append()
    broker.write()
    broker.clock.seconds += 1
    partition.check_isr()
    assert broker.alterations == []
    broker.clock.seconds += 31
    partition.check_isr()
    assert len(broker.alterations) == 1


# The ISR


def test_a_follower_that_has_caught_up_joins_the_isr() -> None:
    broker = Broker()
    (partition,) = broker.partitions
    partition.become(broker.image((1,), partition_epoch=4))
    broker.append()
    broker.write()
    assert partition.high_watermark == 1
    follower = Follower(broker)
    follower.fetch({0: 0})
    assert broker.alterations == []
    follower.received()
    follower.fetch({0: 1})
    (request,) = broker.alterations
    (data,) = request.topics[0].partitions
    assert request.topics[0].topic_id == TOPIC_ID
    assert [(one.broker_id, one.broker_epoch) for one in data.new_isr_with_epochs] == [(1, 100), (2, 20)]
    waiter = broker.append()
    broker.write()
    assert waiter.errors == []  # the follower counts already
    follower.received()
    follower.fetch({0: 2})
    assert waiter.errors == [ErrorCode.NONE]


def test_acks_all_fails_when_the_isr_becomes_too_small() -> None:
    broker = Broker()
    (partition,) = broker.partitions
    config = partition.log.config
    partition.reconfigure(type(config)(min_insync_replicas=2))
    waiter, local = broker.append(), broker.append(acks=1)
    broker.write()
    assert local.errors == [ErrorCode.NONE]
    partition.become(broker.image((1,), partition_epoch=1))
    assert waiter.errors == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
    assert partition.high_watermark == 0


def test_a_fenced_follower_no_longer_delays_the_high_watermark() -> None:
    broker = Broker()
    (partition,) = broker.partitions
    waiter = broker.append()
    broker.write()
    follower = Follower(broker)
    follower.fetch({0: 1})
    assert waiter.errors == []
    partition.become(broker.image((1, 2), partition_epoch=1))
    assert waiter.errors == [ErrorCode.NONE]


def test_a_follower_gets_a_log_start_that_moved() -> None:
    broker = Broker()
    (partition,) = broker.partitions
    two, three = Follower(broker, 2), Follower(broker, 3)
    broker.append()
    broker.write()
    for follower in (two, three):
        follower.fetch({0: 1})
    broker.expire()
    two.received()
    assert not partition.delete_records(1).done
    two.fetch({})
    assert two.received()[0].log_start_offset == 1


def with_record() -> tuple[Broker, Partition, list[Follower]]:
    """A record that is committed on three brokers, and the fetches of two of them, which wait."""
    broker = Broker()
    followers = [Follower(broker, 2), Follower(broker, 3)]
    broker.append()
    broker.write()
    for follower in followers:
        follower.fetch({0: 1})
    broker.expire()
    for follower in followers:
        follower.received()
        follower.fetch({})
        assert follower.waits
    return broker, broker.partitions[0], followers


def test_records_are_deleted_when_all_replicas_have_deleted_them() -> None:
    broker, partition, followers = with_record()
    deleted = partition.delete_records(1)
    broker.turn()
    for follower in followers:
        assert (deleted.done, partition.low_watermark) == (False, 0)
        assert follower.received()[0].log_start_offset == 1
        follower.fetch({0: 1}, log_start=1)
    assert (deleted.result(), partition.low_watermark) == (1, 1)


def test_a_follower_reports_its_log_start_although_it_has_that_of_the_leader() -> None:
    """Its own retention has moved it meanwhile."""
    broker, partition, followers = with_record()
    partition.log.increment_log_start_offset(1)
    broker.expire()
    for follower in followers:
        follower.received()
        follower.fetch({0: 1})
    broker.expire()
    assert [follower.received()[0].log_start_offset for follower in followers] == [1, 1]
    deleted = partition.delete_records(1)
    for follower in followers:
        follower.fetch({})
        assert follower.received()[0].log_start_offset == 1
        follower.fetch({0: 1}, log_start=1)
        assert follower.waits
    assert deleted.result() == 1


def deletion_without_broker_3() -> tuple[Broker, Partition, Promise[int]]:
    """A deletion that only broker 3 has not made."""
    broker, partition, (two, _) = with_record()
    deleted = partition.delete_records(1)
    broker.turn()
    two.received()
    two.fetch({0: 1}, log_start=1)
    assert not deleted.done
    return broker, partition, deleted


def test_a_deletion_does_not_wait_for_a_fenced_follower() -> None:
    broker, partition, deleted = deletion_without_broker_3()
    fenced = msgspec.structs.replace(broker.cluster.brokers[3], fenced=True)
    broker.cluster.brokers = {**broker.cluster.brokers, 3: fenced}
    partition.brokers_changed()
    assert deleted.result() == 1
    assert partition.delete_records(1).result() == 1


def test_a_deletion_ends_with_a_replica_that_is_removed() -> None:
    broker, partition, deleted = deletion_without_broker_3()
    partition.become(broker.image((1, 2), replicas=(1, 2), partition_epoch=1))
    assert deleted.result() == 1


def test_a_deletion_fails_when_the_leadership_ends() -> None:
    broker, partition, _ = with_record()
    deleted = partition.delete_records(1)
    partition.become(broker.image(leader=2, epoch=1, partition_epoch=1))
    with pytest.raises(ApiError, match="NOT_LEADER_OR_FOLLOWER"):
        deleted.result()


def test_a_partition_of_another_broker_ends_the_wait_of_a_consumer() -> None:
    broker = Broker()
    broker.missing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    consumer = Follower(broker, -1)
    consumer.fetch({0: 0, 5: 0})
    assert consumer.received()[5].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    unknown = Follower(broker, -1, session=False)
    broker.missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    unknown.fetch({0: 0, 5: 0})
    assert unknown.waits


def test_a_partition_of_another_broker_has_no_list_of_aborted_transactions() -> None:
    (broker := Broker()).missing = ErrorCode.NOT_LEADER_OR_FOLLOWER
    (follower := Follower(broker)).fetch({5: 0}, wait_ms=0)
    assert follower.received()[5].aborted_transactions is None


# Consumers at followers (KIP-392)


def following(records: int = 2, high_watermark: int = 1) -> Broker:
    broker = Broker()
    (partition,) = broker.partitions
    for _ in range(records):
        broker.append()
    broker.write()
    partition.become(broker.image(leader=2, epoch=1, partition_epoch=1))
    partition.follow_high_watermark(high_watermark)
    return broker


def test_a_follower_serves_consumers_up_to_its_high_watermark() -> None:
    broker = following()
    consumer = Follower(broker, -1)
    consumer.fetch({0: 0}, epoch=1)
    received = consumer.received()[0]
    assert (received.error_code, received.high_watermark) == (0, 1)
    assert received.records
    consumer.fetch({0: 1}, epoch=1)
    assert consumer.waits
    broker.partitions[0].follow_high_watermark(2)
    broker.turn()
    assert consumer.received()[0].records


def test_a_follower_does_not_refuse_what_the_leader_may_have() -> None:
    broker = following()
    consumer = Follower(broker, -1)
    consumer.fetch({0: 3}, epoch=1)
    assert consumer.received()[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    consumer.fetch({0: 3}, epoch=1, last_epoch=0)
    assert consumer.received()[0].error_code == ErrorCode.OFFSET_NOT_AVAILABLE


def test_old_consumers_are_refused_by_a_follower() -> None:
    broker = following()
    consumer = Follower(broker, -1, session=False)
    consumer.fetch({0: 0}, epoch=1, version=10)
    assert consumer.received()[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    consumer.fetch({0: 0}, epoch=1, version=11)
    assert consumer.received()[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("version", "code"), [(5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (6, ErrorCode.KAFKA_STORAGE_ERROR)]
)
def test_old_consumers_do_not_know_the_error_of_a_failed_directory(version: int, code: ErrorCode) -> None:
    broker = Broker()
    broker.partitions[0].log.fail()
    consumer = Follower(broker, -1, session=False)
    consumer.fetch({0: 0}, epoch=-1, version=version)
    assert consumer.received()[0].error_code == code


def test_the_leader_names_the_follower_in_the_rack_of_the_consumer() -> None:
    broker = Broker(rack_aware=True)
    broker.append()
    broker.write()
    follower = Follower(broker, 2)
    follower.fetch({0: 0})
    consumer = Follower(broker, -1, rack="r2", session=False)
    consumer.fetch({0: 0})
    received = consumer.received()[0]
    assert received.preferred_read_replica == 2
    assert not received.records
    for rack, offset in (("r1", 0), ("r3", 0), ("r9", 0), ("", 0)):
        other = Follower(broker, -1, rack=rack, session=False)
        other.fetch({0: offset}, wait_ms=0)
        assert other.received()[0].preferred_read_replica == -1
    partition = broker.partitions[0]
    assert partition.preferred_read_replica("r2", 1) == -1  # the follower does not have it yet
    partition.become(broker.image((1, 3), partition_epoch=1))
    assert partition.preferred_read_replica("r2", 0) == -1
