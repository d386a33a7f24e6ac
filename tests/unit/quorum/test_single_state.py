"""A quorum of one: its epoch, who leads, and the timestamps of its snapshots."""

from __future__ import annotations

from pathlib import Path

from ottla.base.errors import ErrorCode
from ottla.base.files import OsDisk
from ottla.quorum.quorum_state import FILE_NAME, QuorumState, write_quorum_state
from ottla.quorum.snapshots import SnapshotStore
from tests.support.quorum import PARTITION, QuorumBench


def opened(root: Path) -> QuorumBench:
    return QuorumBench(OsDisk(), str(root))


def test_the_epoch_is_above_the_stored_one_if_the_log_has_no_record_of_it(tmp_path: Path) -> None:
    """The process ended between the election state and the first batch of the epoch."""
    opened(tmp_path).lead().close()
    path = f"{tmp_path}/{PARTITION}/{FILE_NAME}"
    write_quorum_state(OsDisk(), path, QuorumState(7, 1), kraft_version=1, node_id=1)
    assert opened(tmp_path).lead().quorum.epoch == 8


def test_the_only_voter_leads_from_its_epoch_until_it_stops(tmp_path: Path) -> None:
    bench = opened(tmp_path)
    assert (bench.quorum.leader_id, bench.quorum.is_voter) == (-1, True)
    bench.lead()
    assert bench.quorum.leader_id == 1
    bench.quorum.stop()
    assert bench.quorum.leader_id == -1


def test_a_snapshot_has_the_timestamp_of_the_records_before_the_start(tmp_path: Path) -> None:
    first = opened(tmp_path).lead()
    first.append(b"a")
    timestamp_ms = first.seen.batches[-1].timestamp_ms
    assert timestamp_ms > 0
    first.close()
    bench = opened(tmp_path)
    last = bench.quorum.log_end_offset - 1
    bench.quorum.write_snapshot(last, 1, [b"a"])
    bench.run()
    store = SnapshotStore(OsDisk(), f"{tmp_path}/{PARTITION}")
    assert store.read(store.ids()[-1]).last_timestamp_ms == timestamp_ms


def test_the_result_of_a_removal_says_why_it_is_refused(tmp_path: Path) -> None:
    bench = opened(tmp_path).lead()
    (local,) = bench.quorum.describe().voters
    last = bench.quorum.remove_voter(local.node_id, local.directory_id).result()
    other = bench.quorum.remove_voter(9, local.directory_id).result()
    assert [last.error, other.error] == [ErrorCode.VOTER_NOT_FOUND] * 2
    assert "last voter" in last.message
    assert "no voter has this" in other.message
