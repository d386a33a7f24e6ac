"""Elections, resignations and operations of a runtime."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.runtime.decision import Decision
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from tests.support.shards import Bench, say, word


def code_of(promise: Promise[object]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        promise.result()
    return caught.value.code


def test_a_partition_that_is_not_led_fails_with_not_coordinator() -> None:
    runtime = Bench().runtime
    promises: list[Promise[object]] = [
        runtime.write(3, say("a")),
        runtime.read(3, lambda _: None),
        runtime.write_transactional(3, 1, 1, say("a")),
        runtime.complete_transaction(3, 1, 1, 1, committed=True),
    ]
    assert {code_of(each) for each in promises} == {ErrorCode.NOT_COORDINATOR}


def test_resigning_fails_waiting_requests_and_notifies_the_state_machine() -> None:
    bench = Bench()
    machine = bench.serve(epoch=4)
    response = bench.runtime.write(0, say("a"))
    machine.timers.schedule("t", 10, lambda: Decision(None, [word("late")]))
    bench.scheduler.run()
    bench.runtime.resign(0)
    assert code_of(response) is ErrorCode.NOT_COORDINATOR
    assert machine.events == ["loaded", "unloaded"]
    bench.log.commit()
    bench.scheduler.advance(20)
    assert machine.counts == {"a": 1}
    bench.runtime.resign(0)


def test_the_state_machine_may_complete_waiting_requests_when_it_is_unloaded() -> None:
    bench = Bench()
    machine = bench.serve()
    waiting: Promise[str] = Promise()
    response = bench.runtime.write(0, lambda _: Decision(waiting))
    machine.on_unloaded = lambda: waiting.keep("not here any more")  # type: ignore[method-assign]
    bench.runtime.resign(0)
    assert response.result() == "not here any more"


def test_an_election_counts_only_with_a_new_epoch() -> None:
    bench = Bench()
    machine = bench.serve(epoch=2)
    bench.runtime.elect(0, 2)
    bench.runtime.elect(0, 1)
    assert bench.machine is machine
    bench.runtime.elect(0, 3)
    assert machine.events == ["loaded", "unloaded"]
    assert code_of(bench.runtime.write(0, say("a"))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.scheduler.run()
    assert bench.runtime.is_active(0)
    assert bench.machine.leader_epoch == 3


def test_metadata_changes_reach_active_state_machines() -> None:
    bench = Bench()
    bench.serve(0)
    bench.runtime.elect(1, 0)
    image = MetadataImage(offset=5)
    bench.runtime.on_metadata_changed(MetadataDelta(EMPTY_IMAGE), image)
    bench.scheduler.run()
    served, loaded_later = bench.machines
    assert served.images == [EMPTY_IMAGE, image]
    assert loaded_later.images == [image]


def test_all_shards_are_read_in_order() -> None:
    bench = Bench()
    bench.serve(2)
    bench.serve(0)
    assert [each.result() for each in bench.runtime.read_all(lambda machine: machine.partition)] == [0, 2]
    bench.runtime.elect(1, 0)
    first, loading, last = bench.runtime.write_all(lambda machine: Decision(machine.partition, [word("x")]))
    assert code_of(loading) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.scheduler.run()
    bench.log.commit(0)
    bench.log.commit(2)
    assert (first.result(), last.result()) == (0, 2)


def test_closing_appends_open_batches_and_fails_waiting_requests() -> None:
    bench = Bench()
    machine = bench.serve()
    response = bench.runtime.write(0, say("a"))
    bench.runtime.close()
    assert len(bench.log.stored[0]) == 1
    assert code_of(response) is ErrorCode.NOT_COORDINATOR
    assert machine.events == ["loaded", "unloaded"]
    bench.scheduler.run()
    assert len(bench.log.stored[0]) == 1


def test_an_announced_election_is_loaded_when_it_is_started() -> None:
    bench = Bench()
    old = bench.serve(epoch=1)
    bench.runtime.announce(0, 2)
    assert old.events == ["loaded", "unloaded"]
    bench.scheduler.run()
    assert code_of(bench.runtime.read(0, lambda _: None)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    bench.runtime.start(0, 1)
    bench.scheduler.run()
    assert not bench.runtime.is_active(0)
    bench.runtime.start(0, 2)
    bench.runtime.start(0, 2)
    bench.scheduler.run()
    assert bench.runtime.is_active(0)
    assert bench.machine.events == ["loaded"]


def test_an_election_that_was_taken_back_is_not_started() -> None:
    bench = Bench()
    bench.runtime.announce(0, 2)
    bench.runtime.resign(0)
    bench.runtime.start(0, 2)
    bench.scheduler.run()
    assert code_of(bench.runtime.read(0, lambda _: None)) is ErrorCode.NOT_COORDINATOR
