from __future__ import annotations

import errno

import pytest

from ottla.base.errors import ApiError, ErrorCode, LocalError, StorageFault
from ottla.base.ids import TopicPartition, Uuid
from ottla.base.rng import Random
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.log_dir import LogDir
from ottla.storage.log_dirs import LogDirs, NewLog
from ottla.testing.disk import SimDisk, Survival
from ottla.testing.executor import InlineExecutor
from tests.support.logs import NOW_MS, append, batch, create_log, offsets

CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100, file_delete_delay_ms=1000)


def topic(number: int = 0, name: str = "t") -> TopicPartition:
    return TopicPartition(name, number)


class Bench:
    def __init__(
        self,
        disk: SimDisk | None = None,
        paths: tuple[str, ...] = ("/a", "/b"),
        executor: InlineExecutor | None = None,
    ) -> None:
        self.disk = disk or SimDisk(Random(1))
        self.offline: list[LogDir] = []
        executor = executor or InlineExecutor()
        self.dirs = LogDirs(self.disk, paths, Random(2), executor, on_offline=self.offline.append)
        self.dirs.claim("cluster", 7)
        self.dirs.load(lambda _: CONFIG, NOW_MS).result()

    def create(self, partition: TopicPartition) -> Log:
        return create_log(self.dirs, partition, Uuid(int=9), CONFIG)

    def again(self, survival: Survival = Survival.NONE) -> Bench:
        """A start on what a crash leaves."""
        return Bench(self.disk.crash(survival), tuple(each.path for each in self.dirs.dirs))

    def restart(self) -> Bench:
        """A clean stop and a start."""
        self.dirs.close(NOW_MS, broker_epoch=5).result()
        return Bench(self.disk, tuple(each.path for each in self.dirs.dirs))

    def log(self, partition: TopicPartition) -> Log:
        found = self.dirs.get(partition)
        assert found is not None
        return found


def test_a_new_directory_gets_an_identity() -> None:
    bench = Bench()
    lines = bench.disk.read("/a/meta.properties").decode().splitlines()
    assert {"version=1", "cluster.id=cluster", "node.id=7"} <= set(lines)
    ids = {each.directory_id for each in bench.dirs.dirs}
    assert len(ids) == 2
    bench.dirs.release()
    again = LogDirs(bench.disk, ["/a", "/b"], Random(3), InlineExecutor())
    assert again.cluster_id == "cluster"
    again.claim("cluster", 7)
    assert {each.directory_id for each in again.dirs} == ids


def test_foreign_directories_are_refused() -> None:
    bench = Bench()
    bench.dirs.release()
    with pytest.raises(LocalError, match="belongs to cluster cluster"):
        LogDirs(bench.disk, ["/a"], Random(3), InlineExecutor()).claim("another", 7)
    bench.disk.locked_paths.clear()
    with pytest.raises(LocalError, match="belongs to node 7"):
        LogDirs(bench.disk, ["/a"], Random(3), InlineExecutor()).claim("cluster", 8)


def test_a_second_broker_is_refused_and_holds_no_lock() -> None:
    bench = Bench(paths=("/a",))
    with pytest.raises(LocalError, match="another broker"):
        LogDirs(bench.disk, ["/c", "/a"], Random(3), InlineExecutor())
    assert bench.disk.locked_paths == {"/a/.lock"}
    bench.dirs.close(NOW_MS).result()
    LogDirs(bench.disk, ["/a"], Random(3), InlineExecutor()).release()


def test_a_new_log_is_created_in_the_directory_with_the_fewest_logs() -> None:
    bench = Bench()
    for number in range(5):
        bench.create(topic(number))
    assert [len(each.logs) for each in bench.dirs.dirs] == [3, 2]
    with pytest.raises(LocalError, match="exists"):
        bench.create(topic(0))


def test_logs_are_found_again_with_their_topic_id() -> None:
    bench = Bench()
    for number in range(3):
        append(bench.create(topic(number)), batch(number + 1))
    for again in (bench.again(), bench.restart()):
        assert {log.topic_partition: log.log_end_offset for log in again.dirs.logs()} == {
            topic(0): 1,
            topic(1): 2,
            topic(2): 3,
        }
        assert {log.topic_id for log in again.dirs.logs()} == {Uuid(int=9)}


def test_a_clean_stop_is_marked_and_the_mark_used_once() -> None:
    bench = Bench(paths=("/a",))
    append(bench.create(topic()), *[batch(value=bytes(50)) for _ in range(8)])
    bench.dirs.close(NOW_MS, broker_epoch=42).result()
    assert bench.disk.read("/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert bench.disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 8\n"
    again = Bench(bench.disk, ("/a",))
    assert again.dirs.dirs[0].previous_broker_epoch == 42
    assert not again.disk.crash(Survival.NONE).exists("/a/.kafka_cleanshutdown")
    assert again.log(topic()).log_end_offset == 8


def test_the_metadata_log_is_left_alone() -> None:
    bench = Bench(paths=("/a",))
    bench.disk.makedirs("/a/__cluster_metadata-0")
    bench.disk.makedirs("/a/some-folder")
    bench.disk.makedirs("/a/t-0.0123-stray")
    assert list(bench.again().dirs.logs()) == []
    assert bench.again().disk.listdir("/a/__cluster_metadata-0") == []


def test_of_a_partition_in_two_directories_the_one_in_the_metadata_is_kept() -> None:
    """Its directory had failed, so that it was copied to another one, and can be used again."""
    bench = Bench()
    for path in ("/a/t-0", "/b/t-0"):
        bench.disk.makedirs(path)
    again = bench.again()
    first, second = again.dirs.dirs

    again.dirs.set_copies_aside(lambda _: second.directory_id).result()

    assert (topic() in first.logs, topic() in second.logs) == (False, True)
    assert [name for name in again.disk.listdir("/a") if name.endswith("-stray")] != []
    assert [name for name in again.disk.listdir("/b") if name.endswith("-stray")] == []


def test_of_a_partition_in_two_directories_without_a_replica_one_is_left() -> None:
    bench = Bench()
    for path in ("/a/t-0", "/b/t-0"):
        bench.disk.makedirs(path)
    again = bench.again()
    again.dirs.set_copies_aside(lambda _: None).result()
    assert [log.log_dir for log in again.dirs.logs()] == ["/a"]


def test_a_partition_in_two_directories_that_the_metadata_do_not_name_is_refused() -> None:
    bench = Bench()
    for path in ("/a/t-0", "/b/t-0"):
        bench.disk.makedirs(path)
    again = bench.again()
    with pytest.raises(LocalError, match="is in both"):
        again.dirs.set_copies_aside(lambda _: Uuid(int=77))


def test_checkpoints_hold_what_they_promise() -> None:
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    append(log, *[batch(value=bytes(50)) for _ in range(8)])
    log.high_watermark = 8
    log.increment_log_start_offset(1)
    bench.dirs.checkpoint().result()
    assert bench.disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 8\n"
    assert bench.disk.read("/a/log-start-offset-checkpoint") == b"0\n1\nt 0 1\n"
    assert bench.disk.read("/a/replication-offset-checkpoint") == b"0\n1\nt 0 8\n"
    before = len(bench.disk.trace)
    bench.dirs.checkpoint().result()
    assert len(bench.disk.trace) == before
    again = bench.again().log(topic())
    assert (again.log_start_offset, again.high_watermark, again.log_end_offset) == (1, 8, 8)


def test_unreadable_checkpoints_cost_a_scan_only() -> None:
    bench = Bench(paths=("/a",))
    append(bench.create(topic()), batch(3))
    bench.dirs.checkpoint().result()
    bench.disk.replace("/a/recovery-point-offset-checkpoint", b"\xff\xfe")
    assert bench.again().log(topic()).log_end_offset == 3


def test_a_cut_log_lowers_its_checkpoints_first() -> None:
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    append(log, *[batch(value=bytes(50)) for _ in range(8)])
    bench.dirs.checkpoint().result()
    bench.dirs.truncate(log, 3, NOW_MS).result()
    assert bench.disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 3\n"
    append(log, batch(value=b"other"))
    assert offsets(bench.again().log(topic())) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_a_restarted_log_lowers_its_checkpoints_first() -> None:
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    append(log, *[batch(value=bytes(50)) for _ in range(8)])
    log.high_watermark = 8
    bench.dirs.checkpoint().result()
    bench.dirs.restart(log, 100, NOW_MS).result()
    assert bench.disk.read("/a/recovery-point-offset-checkpoint") == b"0\n1\nt 0 0\n"
    assert (log.log_start_offset, log.high_watermark, log.committable_offset) == (100, 100, 100)
    append(log, batch(2))
    assert offsets(bench.again().log(topic())) == [(100, 101)]


def test_a_deleted_log_is_removed_at_once_and_its_files_later() -> None:
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    append(log, batch(3))
    slice_held = log.read(0, 1000, upto=3)
    bench.dirs.delete_logs([topic()], NOW_MS).result()
    bench.dirs.delete_logs([topic()], NOW_MS).result()
    assert bench.dirs.get(topic()) is None
    assert bench.again().dirs.get(topic()) is None
    assert len(slice_held.read()) == slice_held.size
    (renamed,) = [name for name in bench.disk.listdir("/a") if name.endswith("-delete")]
    assert renamed.startswith("t-0.")
    assert bench.dirs.remove_deleted(NOW_MS + 999).result() == 0
    assert bench.dirs.remove_deleted(NOW_MS + 1000).result() == 1
    assert renamed not in bench.disk.listdir("/a")
    append(bench.create(topic()), batch())


def test_many_deleted_logs_are_removed() -> None:
    bench = Bench(paths=("/a",))
    for number in range(25):
        bench.create(topic(number))
    bench.dirs.delete_logs([topic(number) for number in range(25)], NOW_MS).result()
    assert bench.dirs.remove_deleted(NOW_MS + 1000).result() == 25
    assert not [name for name in bench.disk.listdir("/a") if name.endswith("-delete")]


def test_a_directory_that_cannot_sync_deletions_goes_offline() -> None:
    bench = Bench(paths=("/a",))
    bench.create(topic())
    bench.disk.fail_at(1)
    bench.dirs.delete_logs([topic()], NOW_MS).result()
    assert [each.path for each in bench.offline] == ["/a"]


def test_an_interrupted_deletion_is_completed() -> None:
    bench = Bench(paths=("/a",))
    append(bench.create(topic()), batch(3))
    bench.dirs.delete_logs([topic()], NOW_MS).result()
    again = bench.again()
    assert again.dirs.remove_deleted(NOW_MS).result() == 1
    assert not [name for name in again.disk.listdir("/a") if name.endswith("-delete")]


def test_a_log_with_a_job_outstanding_is_not_removed() -> None:
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    log.append(batch(), 0, NOW_MS)
    job = log.take_staged()
    assert job is not None
    bench.dirs.delete_logs([topic()], NOW_MS).result()
    assert bench.dirs.remove_deleted(NOW_MS + 5000).result() == 0
    log.written(job, NOW_MS)
    assert bench.dirs.remove_deleted(NOW_MS + 5000).result() == 1


def test_retention_runs_over_all_logs() -> None:
    bench = Bench()
    for number in range(3):
        log = bench.create(topic(number))
        append(log, *[batch(value=bytes(60), time_ms=1000) for _ in range(5)])
        log.high_watermark = 5
    assert bench.dirs.enforce_retention(NOW_MS).result() == 9
    assert {log.log_start_offset for log in bench.dirs.logs()} == {5}
    assert bench.dirs.remove_deleted(NOW_MS + 1000).result() == 9


def test_logs_are_flushed_by_time() -> None:
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    log.reconfigure(LogConfig(flush_messages=1000, flush_ms=500))
    append(log, batch())
    assert bench.dirs.flush_due(NOW_MS + 10_000) == []
    log.append(batch(), 0, NOW_MS)
    job = log.take_staged()
    assert job is not None
    job.run()
    log.written(job, NOW_MS)
    assert bench.dirs.flush_due(NOW_MS + 499) == []
    assert bench.dirs.flush_due(NOW_MS + 500) == [log]


def test_silent_producers_expire() -> None:
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    append(log, batch(producer_id=3, epoch=0, sequence=0))
    day_ms = 24 * 60 * 60 * 1000
    bench.dirs.expire_producers(NOW_MS + day_ms - 1)
    assert log.producers.get(3) is not None
    bench.dirs.expire_producers(NOW_MS + day_ms)
    assert log.producers.get(3) is None


def test_producers_of_a_log_that_is_being_truncated_do_not_expire() -> None:
    """A worker makes the state of the producers again meanwhile."""
    bench = Bench(paths=("/a",))
    log = bench.create(topic())
    append(log, batch(producer_id=3, epoch=0, sequence=0))
    job = log.take_restart(0, NOW_MS)
    bench.dirs.expire_producers(NOW_MS + 24 * 60 * 60 * 1000)
    assert log.producers.get(3) is not None
    log.perform(job)
    assert log.producers.get(3) is None


def test_a_failing_directory_goes_offline_and_the_other_stays_online() -> None:
    bench = Bench()
    first, second = bench.create(topic(0)), bench.create(topic(1))
    append(first, batch())
    append(second, batch())
    bench.disk.fail_at(0, errno.EIO)
    bench.dirs.checkpoint().result()
    assert [each.path for each in bench.offline] == ["/a"]
    assert not bench.dirs.dirs[0].online
    with pytest.raises(ApiError) as caught:
        first.append(batch(), 0, NOW_MS)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    append(second, batch())
    assert bench.create(topic(2)).log_dir == "/b"
    assert bench.dirs.enforce_retention(NOW_MS).result() == 0
    bench.dirs.close(NOW_MS).result()
    assert not bench.disk.exists("/a/.kafka_cleanshutdown")
    assert bench.disk.exists("/b/.kafka_cleanshutdown")


def test_a_fault_reported_by_another_component_takes_the_directory_offline_once() -> None:
    bench = Bench()
    log = bench.create(topic())
    for _ in range(2):
        bench.dirs.fail(StorageFault("/a", OSError(errno.EIO, "no")))
    assert [each.path for each in bench.offline] == ["/a"]
    assert log.offline


def test_with_no_directory_left_nothing_is_created() -> None:
    bench = Bench(paths=("/a",))
    bench.disk.fail_at(0, errno.ENOSPC)
    with pytest.raises(ApiError) as caught:
        bench.create(topic())
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(ApiError) as again:
        bench.create(topic())
    assert again.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_directory_that_cannot_be_opened_is_left_out() -> None:
    disk = SimDisk(Random(1))
    disk.makedirs("/b")
    disk.fail_at(0, errno.EACCES)
    dirs = LogDirs(disk, ["/a", "/b"], Random(2), InlineExecutor())
    assert [each.path for each in dirs.dirs] == ["/b"]
    assert list(dirs.unusable) == ["/a"]
    disk.fail_at(0, errno.EACCES)
    with pytest.raises(LocalError, match=r"no log directory can be used: /a: \w.*--data or log\.dirs"):
        LogDirs(disk, ["/a"], Random(2), InlineExecutor())


def test_a_broken_partition_takes_its_directory_offline_at_the_start() -> None:
    bench = Bench()
    append(bench.create(topic(0)), batch())
    append(bench.create(topic(1)), batch())
    disk = bench.disk.crash(Survival.NONE)
    dirs = LogDirs(disk, ["/a", "/b"], Random(2), InlineExecutor())
    dirs.claim("cluster", 7)
    disk.fail_at(0, errno.EIO)
    dirs.load(lambda _: CONFIG, NOW_MS).result()
    assert [each.online for each in dirs.dirs] == [False, True]
    assert [log.topic_partition for log in dirs.logs()] == [topic(1)]


def test_many_changed_logs_are_closed_with_two_syncs_of_the_file_system() -> None:
    bench = Bench(paths=("/a",))
    for number in range(40):
        log = bench.create(topic(number))
        for at in range(3):
            append(log, batch(value=bytes(60), producer_id=1, epoch=0, sequence=at), leader_epoch=at)
    before = len(bench.disk.trace)
    bench.dirs.close(NOW_MS).result()
    closing = bench.disk.trace[before:]
    assert [change.kind for change in closing].count("sync_all") == 2
    assert not [change for change in closing if change.kind == "datasync" and "/t-" in change.path]
    for crashed in (bench.disk, bench.disk.crash(Survival.NONE)):
        again = Bench(crashed, ("/a",))
        for log in again.dirs.logs():
            assert offsets(log) == [(0, 0), (1, 1), (2, 2)]
            assert [tuple(entry) for entry in log.epochs.entries()] == [(0, 0), (1, 1), (2, 2)]
            assert log.snapshots.latest == 3
        assert len(list(again.dirs.logs())) == 40
        crashed.locked_paths.clear()


def test_a_crash_during_the_close_of_many_logs_loses_nothing() -> None:
    bench = Bench(paths=("/a",))
    for number in range(33):
        log = bench.create(topic(number))
        append(log, *[batch(value=bytes(60), time_ms=NOW_MS + at) for at in range(8)])
    bench.dirs.checkpoint().result()
    copy = bench.disk.crash(Survival.NONE)
    before = len(bench.disk.trace)
    bench.dirs.close(NOW_MS).result()
    changes = bench.disk.trace[before:]
    for done, change in enumerate(changes):
        if done % 25 == 0:
            again = Bench(copy.crash(Survival.SOME), ("/a",))
            for log in again.dirs.logs():
                assert log.log_end_offset == 8
                found = log.offset_for_timestamp(NOW_MS + 5)
                assert found is not None
                assert found.offset == 5
        if not change.inode or change.inode in copy._inodes or change.kind == "create":
            copy.apply(change)


def test_an_unclean_start_syncs_the_file_system_once() -> None:
    bench = Bench(paths=("/a",))
    for number in range(3):
        append(bench.create(topic(number)), batch(3))
    disk = bench.disk
    disk.locked_paths.clear()
    before = len(disk.trace)
    again = Bench(disk, ("/a",))
    kinds = [change.kind for change in disk.trace[before:]]
    assert kinds == ["sync_all"]
    assert {log.log_end_offset for log in again.dirs.logs()} == {3}


def test_a_new_log_is_created_in_another_directory_if_one_fails() -> None:
    bench = Bench()
    bench.disk.fail_at(0, errno.EIO)
    assert bench.create(topic()).log_dir == "/b"
    assert [each.path for each in bench.offline] == ["/a"]


def test_close_waits_for_work_that_is_under_way() -> None:
    executor = InlineExecutor(stepped=True)
    dirs = LogDirs(SimDisk(Random(1)), ["/a"], Random(2), executor)
    dirs.claim("cluster", 7)
    loaded = dirs.load(lambda _: CONFIG, NOW_MS)
    executor.run_all()
    loaded.result()
    created: list[object] = []
    dirs.create_logs([NewLog(topic(), Uuid(int=9), CONFIG)], NOW_MS, lambda _, log: created.append(log))
    closed = dirs.close(NOW_MS)
    assert not closed.done
    executor.run_all()
    closed.result()
    assert len(created) == 1
    assert dirs.dirs[0].disk.exists("/a/.kafka_cleanshutdown")


@pytest.mark.parametrize("steps", range(8))
def test_a_log_does_not_inherit_the_checkpoints_of_a_deleted_one(steps: int) -> None:
    """A topic is deleted and created again, during a checkpoint or after it. Then the power fails."""
    executor = InlineExecutor()
    bench = Bench(paths=("/a",), executor=executor)
    log = bench.create(topic())
    append(log, *[batch(value=bytes(50)) for _ in range(8)])
    log.high_watermark = 8
    log.increment_log_start_offset(7)
    executor.stepped = True
    bench.dirs.checkpoint()
    for _ in range(steps):
        executor.step()
    bench.dirs.delete_logs([topic()], NOW_MS)
    created: list[Log | Exception] = []
    bench.dirs.create_logs(
        [NewLog(topic(), Uuid(int=8), CONFIG)], NOW_MS, lambda _, result: created.append(result)
    )
    executor.run_all()
    executor.stepped = False
    (new,) = created
    assert isinstance(new, Log)
    append(new, batch(2), batch(1))

    found = bench.again().log(topic())
    assert (found.log_start_offset, found.high_watermark, found.log_end_offset) == (0, 0, 3)
    assert offsets(found) == [(0, 1), (2, 2)]
