"""Order of records, commits and pauses: one rule per test."""

from __future__ import annotations

from confluent_kafka import Message

from ottla.base.ids import TopicPartition
from ottla.client.parallel.assignment import Work
from ottla.client.parallel.options import Options, Order, RetryPolicy
from ottla.client.parallel.scheduler import Commit, FailureAction, Scheduler

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)


def scheduler_of(**options: object) -> Scheduler:
    scheduler = Scheduler(Options(**options))  # type: ignore[arg-type]
    scheduler.assign(P0, 0, None)
    return scheduler


def add(scheduler: Scheduler, offset: int, key: bytes | None, partition: TopicPartition = P0) -> None:
    scheduler.add(partition, offset, key, Message(*partition, offset, key))


def take_all(scheduler: Scheduler, now: float = 0.0) -> list[Work]:
    taken = []
    while (work := scheduler.take(now)) is not None:
        taken.append(work)
    return taken


def offsets(works: list[Work]) -> list[int]:
    return [work.offset for work in works]


def test_records_of_one_key_run_one_after_another() -> None:
    scheduler = scheduler_of()
    for offset, key in enumerate([b"a", b"a", b"b", b"a"]):
        add(scheduler, offset, key)
    first_a, first_b = take_all(scheduler)
    assert (first_a.offset, first_b.offset) == (0, 2)
    scheduler.finish(first_b)
    assert take_all(scheduler) == []
    scheduler.finish(first_a)
    (second_a,) = take_all(scheduler)
    assert second_a.offset == 1


def test_the_same_key_in_two_partitions_is_two_keys() -> None:
    scheduler = scheduler_of()
    scheduler.assign(P1, 0, None)
    add(scheduler, 0, b"a", P0)
    add(scheduler, 0, b"a", P1)
    assert len(take_all(scheduler)) == 2


def test_an_empty_key_is_a_key_and_records_without_key_do_not_wait() -> None:
    scheduler = scheduler_of()
    for offset, key in enumerate([b"", b"", None, None]):
        add(scheduler, offset, key)
    assert offsets(take_all(scheduler)) == [0, 2, 3]


def test_order_per_partition_gives_one_at_a_time_from_each() -> None:
    scheduler = scheduler_of(order=Order.PARTITION)
    scheduler.assign(P1, 0, None)
    for offset in range(3):
        add(scheduler, offset, None, P0)
        add(scheduler, offset, b"k", P1)
    assert [str(work) for work in take_all(scheduler)] == ["offset 0 of t-0", "offset 0 of t-1"]


def test_without_order_all_records_run_at_once() -> None:
    scheduler = scheduler_of(order=Order.NONE)
    for offset in range(3):
        add(scheduler, offset, b"same")
    assert offsets(take_all(scheduler)) == [0, 1, 2]


def test_a_failed_record_is_retried_when_due_and_blocks_only_its_key() -> None:
    scheduler = scheduler_of(retry=RetryPolicy(delay_first_s=1))
    for offset, key in enumerate([b"a", b"a", b"b"]):
        add(scheduler, offset, key)
    first, other = take_all(scheduler)
    assert scheduler.fail(first, 10.0) is FailureAction.RETRY
    scheduler.finish(other)
    add(scheduler, 3, b"b")
    assert offsets(take_all(scheduler, 10.9)) == [3]
    assert scheduler.next_retry() == 11.0
    assert scheduler.progress().retrying == 1
    assert take_all(scheduler, 11.0) == [first]
    assert scheduler.fail(first, 11.0) is FailureAction.RETRY
    assert scheduler.next_retry() == 13.0, "the second delay is twice the first"
    scheduler.take(13.0)
    scheduler.finish(first)
    assert offsets(take_all(scheduler, 13.0)) == [1]


def test_a_record_counts_as_done_only_when_its_dead_letter_is_acknowledged() -> None:
    scheduler = scheduler_of(retry=RetryPolicy(attempts_max=2), dead_letter_topic="dead")
    add(scheduler, 0, b"a")
    add(scheduler, 1, b"a")
    (work,) = take_all(scheduler)
    assert scheduler.fail(work, 0.0) is FailureAction.RETRY
    assert take_all(scheduler, 9.0) == [work]
    assert scheduler.fail(work, 9.0) is FailureAction.DEAD_LETTER
    assert scheduler.running([P0]) == 1
    assert scheduler.commits() == []
    assert take_all(scheduler, 9.0) == [], "its key waits"
    scheduler.finish(work, dead_lettered=True)
    assert scheduler.commits() == [Commit(P0, 1, "")]
    assert scheduler.progress().dead_lettered == 1


def test_a_record_that_must_not_be_retried_becomes_a_dead_letter_at_once() -> None:
    scheduler = scheduler_of(dead_letter_topic="dead")
    add(scheduler, 0, b"a")
    (work,) = take_all(scheduler)
    assert scheduler.fail(work, 0.0, retriable=False) is FailureAction.DEAD_LETTER


def test_without_dead_letters_a_record_that_fails_permanently_is_never_committed() -> None:
    scheduler = scheduler_of(retry=RetryPolicy(attempts_max=1))
    add(scheduler, 0, b"a")
    add(scheduler, 1, b"b")
    failing, fine = take_all(scheduler)
    scheduler.finish(fine)
    assert scheduler.fail(failing, 0.0) is FailureAction.GIVE_UP
    (commit,) = scheduler.commits()
    assert commit.offset == 0


def test_finished_records_above_the_commit_are_not_handled_again_after_a_restart() -> None:
    before = scheduler_of()
    for offset in range(5):
        add(before, offset, None)
    works = take_all(before)
    for work in works[1::2]:
        before.finish(work)
    (commit,) = before.commits()
    assert commit.offset == 0
    after = Scheduler(Options())
    after.assign(P0, commit.offset, commit.metadata)
    for offset in range(5):
        add(after, offset, None)
    assert offsets(take_all(after)) == [0, 2, 4]
    assert after.progress().passed_over == 2


def test_metadata_of_another_program_is_ignored() -> None:
    scheduler = Scheduler(Options())
    scheduler.assign(P0, 3, "checkpoint of another program")
    add(scheduler, 3, None)
    (work,) = take_all(scheduler)
    scheduler.finish(work)
    assert scheduler.commits() == [Commit(P0, 4, "")]


def test_a_commit_is_repeated_only_after_a_failure() -> None:
    scheduler = scheduler_of()
    add(scheduler, 0, None)
    (work,) = take_all(scheduler)
    scheduler.finish(work)
    (commit,) = scheduler.commits()
    assert scheduler.commits() == []
    scheduler.commit_failed(P0)
    assert scheduler.commits() == [commit]
    scheduler.committed(commit)
    scheduler.commit_failed(P0)
    assert scheduler.commits() == [], "what the cluster has needs no second commit"
    assert scheduler.progress().commit_lag == 0


def test_metadata_is_shortened_if_the_cluster_rejects_it() -> None:
    scheduler = Scheduler(Options(metadata_bytes_max=16))
    scheduler.assign(P0, None, None)
    for offset in range(3):
        add(scheduler, offset, None)
    scheduler.finish(take_all(scheduler)[1])
    (commit,) = scheduler.commits()
    assert commit.metadata
    scheduler.commit_failed(P0)
    while scheduler.shrink_metadata():
        pass
    assert scheduler.commits() == [Commit(P0, 0, "")]


def test_a_closed_partition_gives_out_no_record_and_counts_finished_ones() -> None:
    scheduler = scheduler_of(retry=RetryPolicy(delay_first_s=0))
    for offset in range(3):
        add(scheduler, offset, None)
    work, failing = scheduler.take(0.0), scheduler.take(0.0)
    assert work is not None
    assert failing is not None
    scheduler.close([P0])
    assert scheduler.take(0.0) is None
    assert scheduler.running([P0]) == 2
    scheduler.finish(work)
    assert scheduler.fail(failing, 0.0) is FailureAction.IGNORED, "there is no time left to try again"
    assert scheduler.running([P0]) == 0
    assert [commit.offset for commit in scheduler.commits([P0])] == [1]


def test_results_after_the_end_of_the_assignment_are_ignored() -> None:
    scheduler = scheduler_of(retry=RetryPolicy(attempts_max=1))
    for offset in range(2):
        add(scheduler, offset, None)
    late, later = take_all(scheduler)
    scheduler.drop([P0])
    assert scheduler.in_flight == 0
    scheduler.assign(P0, 0, None)
    add(scheduler, 0, None)
    scheduler.finish(late)
    assert scheduler.fail(later, 0.0) is FailureAction.IGNORED
    assert scheduler.commits() == []
    assert scheduler.progress().ignored == 2
    assert scheduler.in_flight == 1


def test_a_key_stays_blocked_while_a_handler_of_an_ended_assignment_runs() -> None:
    scheduler = scheduler_of()
    add(scheduler, 0, b"a")
    (outliving,) = take_all(scheduler)
    scheduler.drop([P0])
    scheduler.assign(P0, 0, None)
    add(scheduler, 0, b"a")
    add(scheduler, 1, b"b")
    assert offsets(take_all(scheduler)) == [1]
    scheduler.finish(outliving)
    assert offsets(take_all(scheduler)) == [0]


def test_retries_of_a_removed_partition_are_dropped() -> None:
    scheduler = scheduler_of(retry=RetryPolicy(delay_first_s=1))
    add(scheduler, 0, b"a")
    (work,) = take_all(scheduler)
    scheduler.fail(work, 0.0)
    scheduler.drop([P0])
    assert take_all(scheduler, 5.0) == []


def test_reading_again_from_a_lower_offset_restarts_the_partition() -> None:
    scheduler = scheduler_of()
    for offset in range(5):
        add(scheduler, offset, None)
    works = take_all(scheduler)
    for work in works[:4]:
        scheduler.finish(work)
    assert [commit.offset for commit in scheduler.commits()] == [4]
    add(scheduler, 2, None)
    scheduler.finish(works[4])
    assert [commit.offset for commit in scheduler.commits()] == [2]
    assert offsets(take_all(scheduler)) == [2]


def test_a_seek_drops_the_records_that_were_read() -> None:
    scheduler = scheduler_of()
    add(scheduler, 0, None)
    assert scheduler.seek(P0, 40)
    assert not scheduler.seek(P1, 40)
    assert take_all(scheduler) == []
    assert scheduler.commits() == [Commit(P0, 40, "")]


def test_records_of_unassigned_partitions_are_dropped() -> None:
    scheduler = scheduler_of()
    add(scheduler, 0, None, P1)
    scheduler.advance(P1, 4)
    assert take_all(scheduler) == []
    assert scheduler.commits() == []


def test_reading_stops_at_half_and_pauses_only_after_waiting() -> None:
    scheduler = scheduler_of(records_max=8)
    for offset in range(4):
        add(scheduler, offset, None)
    assert scheduler.room() == 0
    assert scheduler.decide_pauses(waited=False) == ([], [])
    assert scheduler.decide_pauses(waited=True) == ([P0], [])
    assert scheduler.decide_pauses(waited=True) == ([], [])
    works = take_all(scheduler)
    scheduler.finish(works[0])
    assert scheduler.decide_pauses(waited=False) == ([], [])
    scheduler.finish(works[1])
    assert scheduler.decide_pauses(waited=False) == ([], [P0])
    assert scheduler.room() == 2


def test_a_slow_partition_pauses_and_another_may_use_the_second_half() -> None:
    scheduler = scheduler_of(records_max=8)
    scheduler.assign(P1, 0, None)
    for offset in range(4):
        add(scheduler, offset, None, P0)
    assert scheduler.decide_pauses(waited=True) == ([P0], [])
    assert scheduler.room() == 4
    for offset in range(4):
        add(scheduler, offset, None, P1)
    assert scheduler.room() == 0
    assert scheduler.decide_pauses(waited=False) == ([P1], []), "at the limit everything pauses"


def test_a_partition_pauses_while_its_metadata_does_not_fit() -> None:
    scheduler = scheduler_of(records_max=10_000, metadata_bytes_max=30)
    for offset in range(400):
        add(scheduler, offset, None)
    works = take_all(scheduler)
    for work in works[1::2]:
        scheduler.finish(work)
    assert scheduler.decide_pauses(waited=False) == ([P0], [])
    for work in works[0:300:2]:
        scheduler.finish(work)
    assert scheduler.decide_pauses(waited=False) == ([], [P0])


def test_progress_contains_each_partition() -> None:
    scheduler = scheduler_of(retry=RetryPolicy(delay_first_s=1))
    for offset in range(5):
        add(scheduler, offset, b"k" if offset > 2 else None)
    first, second = scheduler.take(0.0), scheduler.take(0.0)
    assert first is not None
    assert second is not None
    scheduler.finish(first)
    scheduler.fail(second, 0.0)
    scheduler.take(0.0)
    scheduler.advance(P0, 6)
    progress = scheduler.progress()
    (partition,) = progress.partitions
    assert (progress.running, progress.waiting, progress.retrying, progress.in_flight) == (1, 2, 1, 4)
    assert (progress.done, progress.retried, progress.commit_lag) == (1, 1, 6)
    assert (partition.next_offset, partition.committable_offset, partition.committed_offset) == (6, 1, 0)
