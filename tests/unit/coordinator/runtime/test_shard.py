"""A shard: decide, replay, append, and respond after the commit."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.promise import Promise
from ottla.coordinator.runtime.decision import Decision
from ottla.records.batch import read_header
from ottla.records.control import read_end_txn
from ottla.records.record import iter_records
from tests.support.shards import Bench, Words, say, word


def refused(promise: Promise[object]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        promise.result()
    return caught.value.code


def test_a_write_is_replayed_at_once_and_its_response_waits_for_the_commit() -> None:
    bench = Bench()
    machine = bench.serve()
    response = bench.runtime.write(0, say("hut", 3))
    assert machine.counts == {"hut": 3}
    assert bench.log.stored == {}
    bench.scheduler.run()
    assert len(bench.log.stored[0]) == 1
    assert not response.done
    bench.log.commit()
    assert response.result() == "hut"


def test_writes_of_one_turn_share_a_batch() -> None:
    bench = Bench()
    machine = bench.serve()
    responses = [bench.runtime.write(0, say(text)) for text in "abc"]
    bench.scheduler.run()
    (batch,) = bench.log.stored[0]
    assert read_header(batch).records_count == 3
    assert [stamp.offset for stamp in machine.stamps] == [0, 1, 2]
    bench.log.commit()
    assert [response.result() for response in responses] == ["a", "b", "c"]
    bench.runtime.write(0, say("d"))
    bench.scheduler.run()
    assert [read_header(each).base_offset for each in bench.log.stored[0]] == [0, 3]
    assert machine.stamps[-1].offset == 3


def test_a_later_load_reads_the_appended_timestamp() -> None:
    bench = Bench()
    machine = bench.serve()
    bench.runtime.write(0, say("a"))
    bench.clock.now += 5
    bench.runtime.write(0, say("b"))
    bench.scheduler.run()
    bench.log.commit()
    again = Bench(bench.log).serve()
    assert again.stamps == machine.stamps
    assert again.counts == machine.counts


def test_a_full_batch_is_appended_and_a_new_one_opened() -> None:
    bench = Bench()
    bench.serve()
    bench.log.bytes_max = 150
    responses = [bench.runtime.write(0, say("w" * 20 + str(each))) for each in range(6)]
    bench.scheduler.run()
    batches = bench.log.stored[0]
    assert len(batches) > 1
    assert all(len(batch) <= 150 for batch in batches)
    bench.log.commit()
    assert all(response.done for response in responses)


def test_records_of_one_decision_are_never_split() -> None:
    bench = Bench()
    bench.serve()
    bench.log.bytes_max = 150
    bench.runtime.write(0, say("a" * 20))
    bench.runtime.write(0, lambda _: Decision(None, [word("b" * 20), word("c" * 20)]))
    bench.scheduler.run()
    assert [read_header(each).records_count for each in bench.log.stored[0]] == [1, 2]


def test_a_decision_too_large_for_any_batch_is_refused_and_not_replayed() -> None:
    bench = Bench()
    machine = bench.serve()
    bench.log.bytes_max = 150
    results: list[ErrorCode] = []
    before = bench.runtime.write(0, say("small"))
    response = bench.runtime.write(0, lambda _: Decision(None, [word("x" * 200)], results.append))
    assert refused(response) is ErrorCode.MESSAGE_TOO_LARGE
    assert results == [ErrorCode.MESSAGE_TOO_LARGE]
    assert machine.counts == {"small": 1}
    bench.scheduler.run()
    bench.log.commit()
    assert before.result() == "small"


def test_a_read_waits_for_all_replayed_records() -> None:
    bench = Bench()
    bench.serve()
    assert bench.runtime.read(0, lambda machine: dict(machine.counts)).result() == {}
    bench.runtime.write(0, say("a"))
    early = bench.runtime.read(0, lambda machine: dict(machine.counts))
    bench.scheduler.run()
    bench.runtime.write(0, say("b"))
    late = bench.runtime.read(0, lambda machine: dict(machine.counts))
    bench.scheduler.run()
    bench.log.commit(upto=1)
    assert early.result() == {"a": 1}
    assert not late.done
    bench.log.commit()
    assert late.result() == {"a": 1, "b": 1}


def test_responses_are_sent_in_order() -> None:
    bench = Bench()
    bench.serve()
    order: list[str | None] = []
    for text in ("a", "b"):
        bench.runtime.write(0, say(text)).when_done(lambda value, _: order.append(value))
        bench.runtime.read(0, lambda _: "read").when_done(lambda value, _: order.append(value))
        bench.scheduler.run()
    bench.log.commit()
    assert order == ["a", "read", "b", "read"]


def test_every_append_names_the_leader_epoch_of_the_election() -> None:
    bench = Bench()
    bench.serve(epoch=7)
    bench.runtime.write(0, say("a"))
    bench.runtime.write_transactional(0, 17, 3, say("b"), verification="verified")
    bench.runtime.complete_transaction(0, 17, 3, 1, committed=True)
    bench.scheduler.run()
    assert bench.log.leader_epochs == [7, 7, 7]


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_an_append_in_another_leader_epoch_fails_with_not_coordinator(code: ErrorCode) -> None:
    bench = Bench()
    bench.serve()
    bench.log.refuse = code
    response = bench.runtime.write(0, say("a"))
    bench.scheduler.run()
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        response.result()


def test_on_complete_is_called_when_the_records_are_committed() -> None:
    bench = Bench()
    bench.serve()
    results: list[ErrorCode] = []
    bench.runtime.write(0, lambda _: Decision(None, [word("a")], results.append))
    bench.scheduler.run()
    assert results == []
    bench.log.commit()
    assert results == [ErrorCode.NONE]


def test_a_delayed_response_waits_for_its_promise_and_for_the_records_before_it() -> None:
    bench = Bench()
    bench.serve()
    later: Promise[str] = Promise()
    response = bench.runtime.write(0, lambda _: Decision(later, [word("a")]))
    bench.scheduler.run()
    bench.log.commit()
    assert not response.done
    bench.runtime.write(0, say("b"))
    later.keep("joined")
    assert not response.done
    bench.scheduler.run()
    bench.log.commit()
    assert response.result() == "joined"


def test_an_api_error_is_returned_at_once() -> None:
    bench = Bench()
    bench.serve()
    bench.runtime.write(0, say("a"))

    def refuse(machine: Words) -> Decision[None]:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    assert refused(bench.runtime.write(0, refuse)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_exception_in_an_operation_reaches_the_caller() -> None:
    bench = Bench()
    bench.serve()
    with pytest.raises(ZeroDivisionError):
        bench.runtime.read(0, lambda _: 1 // 0).result()
    assert bench.runtime.is_active(0)


def test_a_failed_append_reloads_the_shard_and_fails_waiting_requests() -> None:
    bench = Bench()
    first = bench.serve()
    results: list[ErrorCode] = []
    kept = bench.runtime.write(0, say("kept"))
    bench.scheduler.run()
    bench.log.commit()
    bench.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    lost = bench.runtime.write(0, lambda _: Decision("lost", [word("lost")], results.append))
    read = bench.runtime.read(0, lambda machine: dict(machine.counts))
    assert first.counts == {"kept": 1, "lost": 1}
    bench.scheduler.run()
    assert kept.result() == "kept"
    assert refused(lost) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refused(read) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert results == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert first.events == ["loaded", "unloaded"]
    assert bench.machine is not first
    assert bench.machine.counts == {"kept": 1}
    assert bench.runtime.is_active(0)


def test_repeated_failures_increase_the_reload_delay() -> None:
    bench = Bench()
    bench.serve()
    bench.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    for pause_ms in (0, 100, 200):
        bench.runtime.write(0, say("lost"))
        bench.scheduler.turn()
        if pause_ms:
            bench.scheduler.advance(pause_ms - 1)
            assert refused(bench.runtime.write(0, say("x"))) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        bench.scheduler.advance(1)
        assert bench.runtime.is_active(0)
    bench.log.refuse = None
    bench.runtime.write(0, say("kept"))
    bench.scheduler.run()
    bench.log.commit()
    bench.log.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.runtime.write(0, say("lost"))
    bench.scheduler.run()
    assert bench.runtime.is_active(0)


def test_a_failed_commit_reloads_the_shard() -> None:
    bench = Bench()
    bench.serve()
    response = bench.runtime.write(0, say("a"))
    bench.scheduler.run()
    bench.log.break_down(0, ErrorCode.KAFKA_STORAGE_ERROR)
    assert refused(response) is ErrorCode.NOT_COORDINATOR
    assert len(bench.machines) == 2


def test_a_state_machine_that_cannot_replay_its_decision_is_discarded() -> None:
    bench = Bench()
    bench.serve()
    with pytest.raises(RuntimeError, match="poison"):
        bench.runtime.write(0, say("poison")).result()
    bench.scheduler.run()
    assert bench.log.stored == {}
    assert bench.machine.counts == {}
    assert bench.runtime.is_active(0)


def test_records_of_another_producer_in_the_log_reload_the_shard() -> None:
    bench = Bench()
    bench.serve()
    other = Bench(bench.log)
    other.serve()
    response = bench.runtime.write(0, say("mine"))
    other.runtime.write(0, say("foreign"))
    other.scheduler.run()
    bench.scheduler.turn()
    assert refused(response) is ErrorCode.NOT_COORDINATOR
    bench.log.commit()
    bench.scheduler.advance(1)
    assert bench.machine.counts == {"foreign": 1, "mine": 1}


def test_a_transactional_write_is_a_separate_batch() -> None:
    bench = Bench()
    machine = bench.serve()
    plain = bench.runtime.write(0, say("plain"))
    pending = bench.runtime.write_transactional(0, 17, 3, say("pending"), verification="verified")
    assert machine.pending == {17: {"pending": 1}}
    assert [read_header(each).is_transactional for each in bench.log.stored[0]] == [False, True]
    assert bench.log.verifications == [None, "verified"]
    bench.log.commit()
    assert (plain.result(), pending.result()) == ("plain", "pending")
    ended = bench.runtime.complete_transaction(0, 17, 3, 9, committed=True)
    assert machine.counts == {"plain": 1, "pending": 1}
    assert not ended.done
    bench.log.commit()
    assert ended.result() is None
    header = read_header(bench.log.stored[0][-1])
    (record,) = iter_records(bench.log.stored[0][-1])
    assert header.is_control
    assert (header.producer_id, header.producer_epoch) == (17, 3)
    marker = read_end_txn(record.key, record.value)
    assert marker is not None
    assert (marker.committed, marker.coordinator_epoch) == (True, 9)


def test_a_transactional_write_that_the_log_refuses_changes_nothing() -> None:
    bench = Bench()
    machine = bench.serve()
    bench.log.refuse = ErrorCode.INVALID_PRODUCER_EPOCH
    results: list[ErrorCode] = []
    response = bench.runtime.write_transactional(0, 17, 3, lambda _: Decision(1, [word("a")], results.append))
    assert refused(response) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert results == [ErrorCode.INVALID_PRODUCER_EPOCH]
    ended = bench.runtime.complete_transaction(0, 17, 3, 9, committed=True)
    assert refused(ended) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert machine.pending == {}
    assert bench.machine is machine


def test_a_transactional_write_too_large_for_a_batch_is_refused_and_not_replayed() -> None:
    bench = Bench()
    machine = bench.serve()
    large = [word(f"{number:050}") for number in range(50)]
    response = bench.runtime.write_transactional(0, 17, 3, lambda _: Decision(1, large))
    assert refused(response) is ErrorCode.MESSAGE_TOO_LARGE
    assert (machine.pending, bench.log.stored) == ({}, {})


def test_a_transactional_write_without_records_only_responds() -> None:
    bench = Bench()
    bench.serve()
    assert bench.runtime.write_transactional(0, 17, 3, lambda _: Decision("nothing")).result() == "nothing"
    assert bench.log.stored == {}


def test_a_timer_decides_like_a_request() -> None:
    bench = Bench()
    machine = bench.serve()
    machine.timers.schedule("expire", 50, lambda: Decision(None, [word("late")]))
    bench.scheduler.advance(50)
    assert machine.counts == {"late": 1}
    assert len(bench.log.stored[0]) == 1


def test_a_timer_that_fails_is_reported_and_the_others_run() -> None:
    bench = Bench()
    machine = bench.serve()

    def broken() -> Decision[None]:
        raise RuntimeError("broken")

    machine.timers.schedule("broken", 50, broken)
    machine.timers.schedule("sound", 50, lambda: Decision(None, [word("late")]))
    bench.scheduler.advance(50)
    assert machine.counts == {"late": 1}
    assert [str(each) for each in bench.reported] == ["broken"]


def test_a_timer_runs_again_while_too_few_replicas_are_in_sync() -> None:
    bench = Bench()
    machine = bench.serve()
    machine.timers.schedule("expire", 50, lambda: Decision(None, [word("late")]))
    bench.log.unwritable = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.scheduler.advance(700)
    assert machine.counts == {}
    bench.log.unwritable = None
    bench.scheduler.advance(700)
    assert machine.counts == {"late": 1}
    assert bench.reported == []


def test_a_timer_that_could_not_be_appended_is_cancelled_like_others() -> None:
    bench = Bench()
    machine = bench.serve()
    machine.timers.schedule("expire", 50, lambda: Decision(None, [word("late")]))
    bench.log.unwritable = ErrorCode.NOT_ENOUGH_REPLICAS
    bench.scheduler.advance(60)
    bench.log.unwritable = None
    machine.timers.cancel("expire")
    bench.scheduler.advance(2000)
    assert machine.counts == {}


def test_a_failing_callback_does_not_prevent_other_responses() -> None:
    bench = Bench()
    bench.serve()

    def broken(value: object, error: BaseException | None) -> None:
        raise RuntimeError("gone")

    bench.runtime.write(0, say("a")).when_done(broken)
    response = bench.runtime.write(0, say("b"))
    bench.scheduler.run()
    bench.log.commit()
    assert response.result() == "b"
    assert len(bench.reported) == 1


def test_a_response_that_waits_for_no_commit_needs_the_lease() -> None:
    bench = Bench()
    bench.serve()
    assert bench.runtime.read(0, lambda machine: machine.counts).result() == {}
    bench.lease.held = False
    without_records: Promise[object] = bench.runtime.write(0, lambda _: Decision("heartbeat"))
    assert refused(without_records) is ErrorCode.NOT_COORDINATOR
    assert refused(bench.runtime.read(0, lambda machine: machine.counts)) is ErrorCode.NOT_COORDINATOR
    bench.lease.held = True
    assert bench.runtime.read(0, lambda machine: machine.counts).result() == {}


def test_a_response_that_is_decided_later_needs_the_lease_then() -> None:
    bench = Bench()
    bench.serve()
    late: Promise[str] = Promise()
    response = bench.runtime.write(0, lambda _: Decision(late))
    bench.lease.held = False
    late.keep("joined")
    assert refused(response) is ErrorCode.NOT_COORDINATOR


def test_a_commit_confirms_leadership_without_the_lease() -> None:
    bench = Bench()
    bench.serve()
    written = bench.runtime.write(0, say("a"))
    read = bench.runtime.read(0, lambda machine: dict(machine.counts))
    bench.scheduler.run()
    bench.lease.held = False
    bench.log.commit()
    assert (written.result(), read.result()) == ("a", {"a": 1})


def test_a_decision_that_the_log_would_refuse_is_not_replayed() -> None:
    bench = Bench()
    machine = bench.serve()
    bench.log.unwritable = ErrorCode.NOT_ENOUGH_REPLICAS
    completed: list[ErrorCode] = []
    decision: Decision[object] = Decision("a", [word("a")], completed.append)
    assert refused(bench.runtime.write(0, lambda _: decision)) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert completed == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (bench.machine, machine.counts) == (machine, {})
    assert bench.runtime.read(0, lambda machine: machine.counts).result() == {}
    bench.log.unwritable = None
    written = bench.runtime.write(0, say("b"))
    bench.scheduler.run()
    bench.log.commit()
    assert written.result() == "b"
    assert machine.counts == {"b": 1}


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_the_end_of_the_leader_epoch_closes_the_shard(error: ErrorCode) -> None:
    bench = Bench()
    machine = bench.serve(epoch=3)
    appended = bench.runtime.write(0, say("a"))
    bench.scheduler.run()
    bench.log.break_down(0, error)
    assert refused(appended) is ErrorCode.NOT_COORDINATOR
    assert machine.events == ["loaded", "unloaded"]
    bench.scheduler.advance(60_000)
    assert bench.machines == [machine]
    assert refused(bench.runtime.read(0, lambda machine: machine.counts)) is ErrorCode.NOT_COORDINATOR
    bench.runtime.elect(0, 3)
    assert refused(bench.runtime.read(0, lambda machine: machine.counts)) is ErrorCode.NOT_COORDINATOR


def test_an_append_in_an_ended_epoch_is_refused_and_not_visible() -> None:
    bench = Bench()
    bench.serve(epoch=3)
    bench.log.epochs[0] = 4
    assert refused(bench.runtime.write(0, say("a"))) is ErrorCode.NOT_COORDINATOR
    assert bench.log.stored == {}
    bench.runtime.elect(0, 4)
    bench.scheduler.run()
    assert bench.runtime.read(0, lambda machine: machine.counts).result() == {}


def test_a_request_that_is_not_committed_in_time_fails_and_its_records_stay() -> None:
    bench = Bench()
    machine = bench.serve()
    completed: list[ErrorCode] = []
    written = bench.runtime.write(0, lambda _: Decision("a", [word("a")], completed.append))
    bench.scheduler.advance(4_000)
    read = bench.runtime.read(0, lambda machine: dict(machine.counts))
    bench.scheduler.advance(999)
    assert not written.done
    bench.scheduler.advance(1)
    assert refused(written) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not read.done
    bench.scheduler.advance(4_000)
    assert refused(read) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    later = bench.runtime.write(0, say("b"))
    bench.scheduler.run()
    assert (completed, machine.counts) == ([], {"a": 1, "b": 1})
    bench.log.commit()
    assert completed == [ErrorCode.NONE]
    assert later.result() == "b"
    assert bench.machines == [machine]


def test_requests_after_a_slow_commit_have_the_same_time() -> None:
    bench = Bench()
    bench.serve()
    slow = [bench.runtime.write(0, say(text)) for text in "ab"]
    bench.scheduler.advance(6_000)
    assert [refused(each) for each in slow] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    bench.log.commit()
    for _ in range(3):
        waiting = bench.runtime.write(0, say("c"))
        bench.scheduler.advance(4_999)
        assert not waiting.done
        bench.log.commit()
        assert waiting.result() == "c"
    late = bench.runtime.write(0, say("d"))
    bench.scheduler.advance(5_000)
    assert refused(late) == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_delayed_response_of_a_request_that_has_failed_is_ignored() -> None:
    bench = Bench()
    bench.serve()
    delayed: Promise[str] = Promise()
    response = bench.runtime.write(0, lambda _: Decision(delayed, [word("a")]))
    bench.scheduler.advance(5_000)
    assert refused(response) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.commit()
    delayed.keep("late")
    assert refused(response) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert bench.reported == []


def test_the_decision_of_a_timer_waits_without_a_limit() -> None:
    bench = Bench()
    machine = bench.serve()
    runs: list[int] = []

    def operation() -> Decision[None]:
        runs.append(1)
        return Decision(None, [word("t", len(runs))])

    machine.timers.schedule("t", 10, operation)
    bench.scheduler.advance(30_000)
    bench.log.commit()
    bench.scheduler.advance(30_000)
    assert (runs, machine.counts) == ([1], {"t": 1})
