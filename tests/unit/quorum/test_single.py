from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode, LocalError
from ottla.base.files import OsDisk
from ottla.quorum import single
from ottla.quorum.quorum import NotLeader, VoterChange
from ottla.quorum.quorum_state import prepare_replica
from ottla.quorum.snapshots import SnapshotId, SnapshotStore
from tests.support.quorum import PARTITION, QuorumBench, voter

DISK = OsDisk()


def opened(root: Path, **more: object) -> QuorumBench:
    return QuorumBench(DISK, str(root), **more)  # type: ignore[arg-type]


def snapshots(root: Path) -> list[SnapshotId]:
    return SnapshotStore(DISK, str(root / str(PARTITION))).ids()


def test_new_directory_is_formatted_as_for_a_standalone_voter(tmp_path: Path) -> None:
    bench = opened(tmp_path)
    assert bench.quorum.kraft_version == 1
    assert snapshots(tmp_path) == [SnapshotId(0, 0)]
    assert (tmp_path / "bootstrap.checkpoint").exists()
    assert bench.values() == []


def test_first_batch_of_an_epoch_is_the_leader_change(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    assert bench.quorum.epoch == 1
    assert bench.quorum.log_end_offset == bench.quorum.high_watermark == 3
    assert '"leaderEpoch":1' in (tmp_path / str(PARTITION) / "quorum-state").read_text()
    (batch,) = bench.seen.batches
    assert (batch.last_offset, batch.epoch, batch.values) == (2, 1, [])


def test_a_decision_is_one_batch(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    assert bench.append(b"a", b"b") == (4, 1)
    assert bench.append(b"c") == (5, 1)
    assert [batch.values for batch in bench.seen.batches] == [[], [b"a", b"b"], [b"c"]]
    assert bench.quorum.high_watermark == 6


def test_commit_waits_for_the_disk(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    bench.executor.stepped = True
    assert bench.quorum.append(1, [b"a"]) == 3
    bench.deferred.pop()()
    assert (bench.values(), bench.quorum.high_watermark) == ([], 3)
    bench.run()
    assert (bench.values(), bench.quorum.high_watermark) == ([b"a"], 4)


def test_a_stop_waits_for_the_write_in_flight_and_for_pending_appends(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    bench.executor.stepped = True
    bench.quorum.append(1, [b"a"])
    bench.deferred.pop()()
    bench.quorum.append(1, [b"b"])
    stopped = bench.quorum.stop()
    assert not stopped.done
    with pytest.raises(NotLeader):
        bench.quorum.append(1, [b"c"])
    bench.run()
    assert stopped.done
    assert bench.values() == [b"a", b"b"]


def test_a_stop_without_a_write_is_immediate(tmp_path: Path) -> None:
    assert opened(tmp_path).lead().quorum.stop().done


def test_every_start_is_a_new_epoch(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        bench = opened(tmp_path).lead()
        epochs.append(bench.quorum.epoch)
        bench.append(b"x")
        bench.close()
    assert epochs == [1, 2, 3]
    bench = opened(tmp_path)
    assert bench.values() == [b"x"] * 3
    # Voters are written once, not at every start.
    assert bench.quorum.log_end_offset == 3 + 1 + 2 * 2


def test_epoch_is_above_that_of_the_log_if_the_state_file_is_lost(tmp_path: Path) -> None:
    for _ in range(3):
        opened(tmp_path).lead().close()
    (tmp_path / str(PARTITION) / "quorum-state").unlink()
    assert opened(tmp_path).lead().quorum.epoch == 4


def test_new_address_of_the_voter_is_written_down(tmp_path: Path) -> None:
    opened(tmp_path).lead().close()
    moved = opened(tmp_path, me=voter(port=1234)).lead()
    assert moved.quorum.log_end_offset == 6
    moved.close()
    assert opened(tmp_path, me=voter(port=1234)).lead().quorum.log_end_offset == 7


@pytest.mark.parametrize(("me", "text"), [(voter(2), "voters"), (voter(1, 8), "directory")])
def test_a_directory_of_another_node_is_refused(tmp_path: Path, me: object, text: str) -> None:
    opened(tmp_path).lead().close()
    with pytest.raises(LocalError, match=text):
        opened(tmp_path, me=me)


def test_describe(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    status = bench.quorum.describe()
    assert (status.leader_id, status.leader_epoch, status.high_watermark) == (1, 1, 3)
    (me,) = status.voters
    assert (me.node_id, me.log_end_offset, me.last_caught_up_ms) == (1, 3, bench.clock.now)
    assert me.listeners[0].port == 9093


def test_failed_write_ends_the_leadership(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = opened(tmp_path).lead()

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(bench.log.segments.active.file), "pwritev", broken)
    with pytest.raises(Exception, match="Input/output"):
        bench.append(b"a")
    assert bench.quorum.high_watermark == 3
    assert bench.seen.events[-1] == ("resigned", 1)
    with pytest.raises(NotLeader):
        bench.quorum.append(1, [b"b"])


def test_appends_of_one_turn_share_a_batch(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    assert [bench.quorum.append(1, values) for values in ([b"a", b"b"], [b"c"], [b"d"])] == [4, 5, 6]
    assert bench.quorum.log_end_offset == 7
    bench.run()
    assert [(batch.last_offset, batch.values) for batch in bench.seen.batches[1:]] == [
        (6, [b"a", b"b", b"c", b"d"])
    ]
    bench.close()
    assert opened(tmp_path).values() == [b"a", b"b", b"c", b"d"]


def test_appends_during_a_write_share_the_next_batch(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    bench.executor.stepped = True
    bench.quorum.append(1, [b"a"])
    bench.deferred.pop()()
    bench.quorum.append(1, [b"b"])
    bench.quorum.append(1, [b"c", b"d"])
    assert (bench.executor.waiting, bench.deferred) == (1, [])
    bench.executor.step()
    assert [batch.values for batch in bench.seen.batches[1:]] == [[b"a"]]
    bench.run()
    assert [batch.values for batch in bench.seen.batches[1:]] == [[b"a"], [b"b", b"c", b"d"]]


def test_large_appends_are_written_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single, "BATCH_BYTES_MAX", 10)
    bench = opened(tmp_path).lead()
    for value in (b"1234567", b"123", b"1", b"x" * 50, b"2"):
        bench.quorum.append(1, [value])
    bench.run()
    assert [batch.values for batch in bench.seen.batches[1:]] == [
        [b"1234567", b"123"],
        [b"1"],
        [b"x" * 50],
        [b"2"],
    ]


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_append_in_another_epoch_fails(tmp_path: Path, epoch: int) -> None:
    opened(tmp_path).lead().close()
    bench = opened(tmp_path).lead()
    with pytest.raises(NotLeader, match=f"epoch {epoch}"):
        bench.quorum.append(epoch, [b"a"])
    assert bench.quorum.log_end_offset == 4


def test_append_before_the_epoch_is_durable_fails(tmp_path: Path) -> None:
    bench = opened(tmp_path).load()
    for epoch in (0, 1):
        with pytest.raises(NotLeader):
            bench.quorum.append(epoch, [b"a"])


def test_epoch_is_durable_before_its_first_batch(tmp_path: Path) -> None:
    bench = opened(tmp_path).load()
    state = tmp_path / str(PARTITION) / "quorum-state"
    assert not state.exists(), "it was written on the event loop"
    bench.executor.step()
    assert '"leaderEpoch":1' in state.read_text()
    assert bench.seen.events == []
    bench.run()
    assert bench.seen.events == [("committed", 2), ("leading", 1)]


def test_failed_state_file_is_reported_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = opened(tmp_path).load()

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(OsDisk, "replace", broken)
    bench.executor.step()
    ((kind, error),) = bench.seen.events  # type: ignore[misc]
    assert (kind, str(error)) == ("failed", "[Errno 5] Input/output error")
    assert bench.log.log_end_offset == 0


def test_failed_write_drops_the_appends_that_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = opened(tmp_path).lead()
    bench.executor.stepped = True
    bench.quorum.append(1, [b"a"])
    bench.deferred.pop()()
    bench.quorum.append(1, [b"b"])

    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(type(bench.log.segments.active.file), "pwritev", broken)
        bench.run()
    assert [event[0] for event in bench.seen.events[-2:]] == ["failed", "resigned"]  # type: ignore[index]
    bench.run()
    assert bench.values() == []


def test_listener_that_cannot_apply_a_batch_stops_the_replica(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()

    def broken(batches: object) -> None:
        raise ZeroDivisionError

    bench.seen.committed = broken  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        bench.append(b"a")
    assert bench.seen.events[-1] == ("resigned", 1)
    with pytest.raises(NotLeader):
        bench.quorum.append(1, [b"b"])


def test_start_delivers_the_snapshot_and_then_the_log(tmp_path: Path) -> None:
    bench = opened(tmp_path, interval=300).lead()
    state = fill(bench, 0, 10)
    bench.close()
    again = opened(tmp_path).load()
    newest = snapshots(tmp_path)[-1]
    assert again.seen.events == [
        ("snapshot", newest.end_offset - 1, 1),
        ("committed", again.quorum.high_watermark - 1),
    ]
    assert again.seen.snapshot == state[: len(again.seen.snapshot)]
    assert again.seen.values() == state


def fill(bench: QuorumBench, first: int, count: int) -> list[bytes]:
    """Append values and take a snapshot of all of them whenever one is due."""
    state = bench.values()
    for number in range(first, first + count):
        value = b"%06d" % number
        appended = bench.append(value)
        state.append(value)
        if bench.quorum.snapshot_due:
            bench.quorum.write_snapshot(*appended, list(state))
            bench.run()
    return state


def test_snapshots_replace_the_log_before_them(tmp_path: Path) -> None:
    bench = opened(tmp_path, interval=1000).lead()
    state = fill(bench, 0, 100)
    bench.close()
    kept = snapshots(tmp_path)
    assert len(kept) == 2
    logs = sorted(path.name for path in (tmp_path / str(PARTITION)).glob("*.log"))
    assert logs == [f"{snapshot.end_offset:020d}.log" for snapshot in kept]
    again = opened(tmp_path, interval=1000)
    assert again.values() == state
    assert again.quorum.kraft_version == 1
    assert again.lead().quorum.epoch == 2
    assert fill(again, 100, 50) == again.values()


def test_damaged_snapshot_falls_back_to_the_one_before(tmp_path: Path) -> None:
    bench = opened(tmp_path, interval=1000).lead()
    state = fill(bench, 0, 100)
    bench.close()
    newest = snapshots(tmp_path)[-1]
    path = tmp_path / str(PARTITION) / newest.file_name
    path.write_bytes(path.read_bytes()[:-10])
    assert opened(tmp_path).values() == state


def test_without_any_snapshot_a_cut_log_is_refused(tmp_path: Path) -> None:
    bench = opened(tmp_path, interval=1000).lead()
    fill(bench, 0, 100)
    bench.close()
    for path in (tmp_path / str(PARTITION)).glob("*.checkpoint"):
        path.unlink()
    with pytest.raises(LocalError, match="snapshot"):
        opened(tmp_path)


def test_snapshot_ahead_of_the_log_starts_the_log_anew(tmp_path: Path) -> None:
    bench = opened(tmp_path, interval=1000).lead()
    state = fill(bench, 0, 100)
    bench.close()
    newest = snapshots(tmp_path)[-1]
    for path in (tmp_path / str(PARTITION)).glob("*.log"):
        path.unlink()
    again = opened(tmp_path)
    assert again.quorum.log_end_offset == newest.end_offset
    assert again.values() == state[: len(again.values())]
    again.lead()
    again.append(b"after")
    again.close()
    assert opened(tmp_path).values()[-1] == b"after"


def test_failed_snapshot_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = opened(tmp_path, interval=300).lead()

    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(SnapshotStore, "write", broken)
        fill(bench, 0, 10)
        assert snapshots(tmp_path) == [SnapshotId(0, 0)]
    state = fill(bench, 10, 10)
    assert len(snapshots(tmp_path)) > 1
    bench.close()
    assert opened(tmp_path).values() == state


def test_torn_tail_loses_whole_decisions_only(tmp_path: Path) -> None:
    """The log cut at every byte: what is left is a prefix of the decisions, each whole."""
    origin = tmp_path / "origin"
    bench = opened(origin).lead()
    ends = [bench.log.size_bytes]
    for number in range(4):
        bench.append(b"%d-a" % number, b"%d-b" % number)
        ends.append(bench.log.size_bytes)
    bench.close()
    log = f"{PARTITION}/{0:020d}.log"
    for size in range(0, ends[-1] + 1, 3):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(origin, copy)
        with (copy / log).open("r+b") as file:
            file.truncate(size)
        cut = opened(copy)
        whole = sum(end <= size for end in ends[1:])
        assert cut.values() == [b"%d-%c" % (n, c) for n in range(whole) for c in b"ab"]
        epoch = cut.quorum.epoch
        assert cut.lead().quorum.epoch == epoch + 1 == 2
        cut.append(b"next")
        assert cut.values()[-1] == b"next"
        cut.close()


def test_a_node_that_follows_others_does_not_run_alone(tmp_path: Path) -> None:
    prepare_replica(DISK, str(tmp_path / str(PARTITION)), 1)
    with pytest.raises(LocalError, match="does not know yet"):
        opened(tmp_path)


def test_the_only_voter_does_not_change(tmp_path: Path) -> None:
    quorum = opened(tmp_path).lead().quorum
    own, other = voter(), uuid.UUID(int=99)
    known = VoterChange(own.node_id, own.directory_id, own.listeners)

    def added(change: VoterChange) -> ErrorCode:
        return quorum.add_voter(change, 0, wait_for_commit=True).result().error

    assert added(known) is ErrorCode.DUPLICATE_VOTER
    assert added(known._replace(node_id=77)) is ErrorCode.REQUEST_TIMED_OUT
    for directory_id in (own.directory_id, other):
        removed = quorum.remove_voter(own.node_id, directory_id).result()
        assert removed.error is ErrorCode.VOTER_NOT_FOUND
    assert quorum.update_voter(known).result().error is ErrorCode.INVALID_REQUEST
    assert quorum.update_voter(known._replace(node_id=77)).result().error is ErrorCode.VOTER_NOT_FOUND
