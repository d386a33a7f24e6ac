"""Compaction against a model: random logs, plain, idempotent and transactional, cleaned at random times."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.records.batch import BatchHeader
from ottla.records.compression import Codec
from ottla.storage.cleaning.cleaner import CleanerConfig
from ottla.testing.disk import SimDisk
from tests.support.cleaning import CleanedLog, Stored

ROOT = "/data"
DELETE_RETENTION_MS = 1_000
PRODUCERS = (1, 2)

keys = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
values = st.one_of(st.none(), st.binary(max_size=8))
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=4)
codecs = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4])


def new_disk() -> SimDisk:
    disk = SimDisk(Random(0))
    disk.makedirs(ROOT)
    return disk


class Producer:
    def __init__(self) -> None:
        self.sequence = 0
        self.pending: list[int] = []  # offsets of the open transaction


class CompactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = new_disk()
        self.log = CleanedLog(
            self.disk,
            ROOT,
            settings={"delete.retention.ms": DELETE_RETENTION_MS, "segment.bytes": 2_000},
            cleaner=CleanerConfig(dedupe_buffer_bytes=24 * 1_000),
        )
        self.written: dict[int, Stored] = {}
        self.committed: set[int] = set()
        self.aborted: set[int] = set()
        self.producers = {producer: Producer() for producer in PRODUCERS}
        self.tombstone_cleaned_at: dict[int, int] = {}

    def _note(self, base: int, records: list[tuple[bytes, bytes | None]]) -> range:
        for number, (key, value) in enumerate(records):
            self.written[base + number] = Stored(base + number, key, value, self.log.time.ms + number)
        return range(base, base + len(records))

    @rule(records=pairs, codec=codecs)
    def write(self, records: list[tuple[bytes, bytes | None]], codec: Codec) -> None:
        self.committed.update(self._note(self.log.write(*records, codec=codec), records))

    @rule(records=pairs, codec=codecs, number=st.sampled_from(PRODUCERS), transactional=st.booleans())
    def write_idempotent(
        self, records: list[tuple[bytes, bytes | None]], codec: Codec, number: int, transactional: bool
    ) -> None:
        producer = self.producers[number]
        transactional = transactional or bool(producer.pending)
        base = self.log.write(
            *records,
            codec=codec,
            producer_id=number,
            epoch=0,
            sequence=producer.sequence,
            transactional=transactional,
        )
        producer.sequence += len(records)
        offsets = self._note(base, records)
        if transactional:
            producer.pending.extend(offsets)
        else:
            self.committed.update(offsets)

    @rule(number=st.sampled_from(PRODUCERS), commit=st.booleans())
    def end_transaction(self, number: int, commit: bool) -> None:
        producer = self.producers[number]
        if producer.pending:
            self.log.end_txn(number, 0, committed=commit)
            (self.committed if commit else self.aborted).update(producer.pending)
            producer.pending.clear()

    @rule(
        batches=st.lists(pairs, min_size=1, max_size=2),
        number=st.sampled_from(PRODUCERS),
        commit=st.booleans(),
    )
    def transact(self, batches: list[list[tuple[bytes, bytes | None]]], number: int, commit: bool) -> None:
        for records in batches:
            self.write_idempotent(records, Codec.NONE, number, True)
        self.end_transaction(number, commit)

    @rule()
    def roll_and_clean(self) -> None:
        self.log.roll()
        self.clean()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(ms=st.sampled_from([1, 400, DELETE_RETENTION_MS]))
    def wait(self, ms: int) -> None:
        self.log.time.ms += ms

    @rule()
    def clean(self) -> None:
        if len(self.log.log.segments) == 1:
            return
        first_untouchable = min(self.log.log.last_stable_offset, self.log.log.segments.active.base_offset)
        end = max(
            (s.base_offset for s in self.log.log.segments if s.base_offset <= first_untouchable), default=0
        )
        tail = [record for record in self.log.records() if record.offset >= end]
        known = dict(self.tombstone_cleaned_at)
        self.log.clean()
        records = self.log.records()
        self._check_cleaned([record for record in records if record.offset < end], end, known)
        assert [record for record in records if record.offset >= end] == tail

    def _check_cleaned(self, records: list[Stored], end: int, known: dict[int, int]) -> None:
        by_offset = {record.offset: record for record in records}
        last: dict[bytes, Stored] = {}
        for offset in sorted(self.committed):
            if offset < end:
                record = self.written[offset]
                assert record.key is not None
                last[record.key] = record
        for offset in by_offset:
            assert offset in self.committed
            record = self.written[offset]
            assert record.key is not None
            # Once per key, unless nothing new made the log worth cleaning again.
            assert last[record.key].offset == offset
        for record in last.values():
            if record.value is not None:
                assert by_offset[record.offset] == record
            elif record.offset in by_offset:
                self.tombstone_cleaned_at.setdefault(record.offset, self.log.time.ms)
            else:
                assert known[record.offset] + DELETE_RETENTION_MS <= self.log.time.ms

    @invariant()
    def what_is_there_was_written(self) -> None:
        for record in self.log.records():
            assert self.written[record.offset] == record

    @invariant()
    def offsets_increase(self) -> None:
        headers: list[BatchHeader] = [header for header, _ in self.log.batches()]
        for before, after in pairwise(headers):
            assert before.last_offset < after.base_offset

    @rule()
    def producers_survive_without_their_snapshots(self) -> None:
        directory = self.log.log.directory
        for name in self.disk.listdir(directory):
            if name.endswith(".snapshot"):
                self.disk.remove(f"{directory}/{name}")
        clock = self.log.time
        expected = list(self.log.log.producers.snapshot())
        again = CleanedLog(
            self.disk,
            ROOT,
            settings={"delete.retention.ms": DELETE_RETENTION_MS, "segment.bytes": 2_000},
            cleaner=self.log.cleaner.config,
        )
        again.time.ms = clock.ms
        again.log.high_watermark = again.log.log_end_offset
        found = {entry.producer_id: entry for entry in again.log.producers.snapshot()}
        for entry in expected:
            assert found[entry.producer_id]._replace(coordinator_epoch=0, timestamp=0) == entry._replace(
                coordinator_epoch=0, timestamp=0
            )
        self.log = again


TestCompaction = CompactionMachine.TestCase
TestCompaction.settings = settings(max_examples=40, stateful_step_count=30)


@settings(max_examples=15)
@given(batches=st.lists(pairs, min_size=3, max_size=30), slots=st.integers(min_value=4, max_value=12))
def test_a_small_map_ends_in_the_same_log(
    batches: list[list[tuple[bytes, bytes | None]]], slots: int
) -> None:
    """However many rounds it takes, each key is left with its last value."""
    log = CleanedLog(new_disk(), ROOT, cleaner=CleanerConfig(dedupe_buffer_bytes=24 * slots))
    for batch in batches:
        log.write(*batch)
        log.roll()
    log.clean()
    last = {}
    for record in log.records():
        last[record.key] = record.value
    expected = {key: value for batch in batches for key, value in batch}
    assert last == expected
    if slots > 10:  # room for all keys at once
        assert len(log.records()) == len(expected)
