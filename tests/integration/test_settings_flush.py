"""When records are synced: `recovery-point-offset-checkpoint` says up to where a log is known to be on the disk.

That file never promises more than was synced, so a point that moves shows a sync, and one that stays while
others move shows that there was none.
"""

from __future__ import annotations

from ottla.local.broker_process import BrokerProcess
from tests.support.clients import Publisher, create_topic, fresh
from tests.support.settings import alter_topic, contents, recovery_points
from tests.support.waiting import wait_until

NEVER = str(2**63 - 1)
UNSYNCED = {"flush.messages": NEVER, "flush.ms": NEVER}


def send(broker: BrokerProcess, topic: str, count: int) -> None:
    """That many batches."""
    publisher = Publisher(broker.bootstrap)
    for number in range(count):
        publisher.send(topic, [{"value": b"%d" % number}])


def point(broker: BrokerProcess, topic: str) -> int:
    return recovery_points(broker.data).get(f"{topic}-0", 0)


def wait_for_point(broker: BrokerProcess, topic: str, offset: int) -> None:
    wait_until(lambda: point(broker, topic) == offset, f"{topic} to be synced up to {offset}")


def wait_for_a_round(broker: BrokerProcess) -> None:
    """Until the checkpoint file has been written once more."""
    other = create_topic(broker.bootstrap, fresh("round"), config={"flush.messages": "1"})
    send(broker, other, 1)
    wait_for_point(broker, other, 1)


def test_flush_messages_1_syncs_every_record(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("flush"), config={"flush.messages": "1"})
    send(brisk, topic, 3)
    wait_for_point(brisk, topic, 3)


def test_flush_messages_syncs_every_so_many_records(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("flush"), config={**UNSYNCED, "flush.messages": "3"})
    send(brisk, topic, 2)
    wait_for_a_round(brisk)
    assert point(brisk, topic) == 0
    send(brisk, topic, 1)
    wait_for_point(brisk, topic, 3)
    send(brisk, topic, 2)
    wait_for_a_round(brisk)
    assert point(brisk, topic) == 3


def test_left_to_the_system_nothing_is_synced_and_everything_is_served(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("flush"), config=UNSYNCED)
    send(brisk, topic, 5)
    wait_for_a_round(brisk)
    assert point(brisk, topic) == 0
    assert len(contents(brisk.bootstrap, topic)) == 5


def test_flush_ms_syncs_what_has_waited_and_is_changed_while_running(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("flush"), config=UNSYNCED)
    send(brisk, topic, 5)
    wait_for_a_round(brisk)
    assert point(brisk, topic) == 0
    alter_topic(brisk.bootstrap, topic, {"flush.ms": "10"})
    wait_for_point(brisk, topic, 5)
    send(brisk, topic, 1)
    wait_for_point(brisk, topic, 6)


def test_flush_messages_is_changed_while_running(brisk: BrokerProcess) -> None:
    topic = create_topic(brisk.bootstrap, fresh("flush"), config=UNSYNCED)
    send(brisk, topic, 2)
    wait_for_a_round(brisk)
    assert point(brisk, topic) == 0
    alter_topic(brisk.bootstrap, topic, {"flush.messages": "1"})
    send(brisk, topic, 1)
    wait_for_point(brisk, topic, 3)


def test_a_segment_that_is_full_is_synced_whatever_the_setting(brisk: BrokerProcess) -> None:
    topic = create_topic(
        brisk.bootstrap, fresh("flush"), config={**UNSYNCED, "segment.ms": "1", "retention.ms": "-1"}
    )
    publisher = Publisher(brisk.bootstrap)
    for time_ms in (1_000, 2_000, 3_000):
        publisher.send(topic, [{"value": b"v", "timestamp": time_ms}])
    wait_until(lambda: point(brisk, topic) >= 2, "the full segments to be synced")
