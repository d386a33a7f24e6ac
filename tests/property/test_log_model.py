"""The log held against a list: whatever is done to it, it contains what the list contains.

The disk is the simulated one, so that a crash is one of the things that can happen.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.rng import Random
from ottla.records.batch import iter_batches
from ottla.storage.log.log import Log
from ottla.storage.log.log_config import LogConfig
from ottla.storage.recovery.recovery import LastKnown
from ottla.testing.disk import SimDisk, Survival
from tests.support.logs import NOW_MS, batch, delete_old, open_at, remove_due, truncate

DIRECTORY = "/data/topic-0"
PRODUCER = 5


class LogMachine(RuleBasedStateMachine):
    log: Log

    @initialize(
        segment_bytes=st.integers(400, 1500),
        index_interval=st.integers(0, 400),
        flush_messages=st.sampled_from([1, 1, 4, 2**63 - 1]),
        seed=st.integers(0, 2**32),
    )
    def start(self, segment_bytes: int, index_interval: int, flush_messages: int, seed: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=index_interval,
            flush_messages=flush_messages,
            retention_ms=-1,
            retention_bytes=3000,
            file_delete_delay_ms=0,
        )
        self.disk = SimDisk(Random(seed))
        self.log = open_at(self.disk, DIRECTORY, self.config)
        self.model: list[tuple[int, int, int]] = []  # base offset, last offset, CRC
        self.flushed = 0  # batches of the model that are durable
        self.start_offset = 0
        self.time_ms = NOW_MS
        self.sequences: list[tuple[int, int]] = []  # sequence, base offset of the producer's batches

    # --- what can happen ---

    @rule(
        count=st.integers(1, 4), size=st.integers(0, 60), step=st.integers(-5, 20), idempotent=st.booleans()
    )
    def append(self, count: int, size: int, step: int, idempotent: bool) -> None:
        self.time_ms += step
        sequence = self._next_sequence()
        made = batch(
            count,
            value=bytes(size),
            time_ms=self.time_ms,
            producer_id=PRODUCER if idempotent else -1,
            epoch=0 if idempotent else -1,
            sequence=sequence if idempotent else -1,
        )
        end = self.log.log_end_offset
        placed = self.log.append(made, 0, NOW_MS)
        assert not placed.duplicate
        assert placed.base_offset == end
        if idempotent:
            self.sequences.append((sequence, placed.base_offset))
            again = self.log.append(made, 0, NOW_MS)
            assert (again.duplicate, again.base_offset) == (True, placed.base_offset)
        self.model.append((placed.base_offset, placed.last_offset, made.header.crc))

    @rule()
    def write(self) -> None:
        job = self.log.take_staged()
        if job is not None:
            job.run()
            self.log.written(job, NOW_MS)
        self._settle()

    @rule()
    def flush(self) -> None:
        self.log.flush(NOW_MS)
        self._settle()
        assert self.log.flushed_offset == self.log.log_end_offset

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW_MS)

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        at = data.draw(st.integers(max(0, len(self.model) - 8), len(self.model) - 1))
        offset = self.model[at][0]
        if offset < self.log.log_start_offset:
            return
        truncate(self.log, offset, NOW_MS)
        del self.model[at:]
        self.sequences = [each for each in self.sequences if each[1] < offset]
        self._settle()

    @rule()
    def retain(self) -> None:
        delete_old(self.log, NOW_MS)
        remove_due(self.log, NOW_MS)
        self.start_offset = self.log.log_start_offset

    @rule(survival=st.sampled_from(Survival))
    def crash(self, survival: Survival) -> None:
        self.disk = self.disk.crash(survival)
        self.log = open_at(self.disk, DIRECTORY, self.config, LastKnown(log_start_offset=self.start_offset))
        kept = sum(1 for _, last, _ in self.model if last < self.log.log_end_offset)
        assert kept >= self.flushed, "a durable batch is gone"
        del self.model[kept:]
        self.sequences = [each for each in self.sequences if each[1] < self.log.log_end_offset]
        self._settle()
        assert self.flushed == len(self.model)

    @rule()
    def kill(self) -> None:
        """The process dies, the page cache lives."""
        last = LastKnown(log_start_offset=self.start_offset)
        self.log = open_at(self.disk, DIRECTORY, self.config, last)
        del self.model[sum(1 for _, end, _ in self.model if end < self.log.log_end_offset) :]
        self.sequences = [each for each in self.sequences if each[1] < self.log.log_end_offset]
        self._settle()

    @rule()
    def restart(self) -> None:
        self.log.close(NOW_MS)
        last = LastKnown(clean=True, log_start_offset=self.start_offset)
        self.log = open_at(self.disk, DIRECTORY, self.config, last)
        self._settle()

    # --- what must hold ---

    @invariant()
    def offsets_are_in_order(self) -> None:
        if not hasattr(self, "model"):
            return
        log = self.log
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.flushed_offset <= log.committable_offset <= log.readable_offset <= log.log_end_offset
        assert log.log_end_offset == (self.model[-1][1] + 1 if self.model else log.log_start_offset)

    @invariant()
    def the_log_reads_like_the_list(self) -> None:
        if not hasattr(self, "model"):
            return
        first = self.log.log_start_offset
        expected = [each for each in self.model if first <= each[0] and each[1] < self.log.readable_offset]
        found = [
            (header.base_offset, header.last_offset, header.crc)
            for header, _ in self.log.batches(first, upto=self.log.log_end_offset)
        ]
        assert found == expected

    @rule(data=st.data())
    def read_anywhere(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(-1, self.log.log_end_offset + 1))
        upto = data.draw(st.integers(0, self.log.log_end_offset))
        size = data.draw(st.integers(0, 500))
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            with pytest.raises(ApiError) as refused:
                self.log.read(offset, size, upto=upto)
            assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
            return
        found = self.log.read(offset, size, upto=upto)
        batches = [header for _, header in iter_batches(found.read())]
        readable = [
            each for each in self.model if each[1] >= offset and each[1] < min(upto, self.log.readable_offset)
        ]
        if not readable or offset >= upto:
            assert found.size == 0 or batches[0].base_offset < upto
            return
        assert batches[0].base_offset == readable[0][0]
        assert all(header.base_offset < upto for header in batches)

    # --- the model ---

    def _settle(self) -> None:
        self.log.high_watermark = self.log.committable_offset
        self.flushed = sum(1 for _, last, _ in self.model if last < self.log.flushed_offset)

    def _next_sequence(self) -> int:
        """The next sequence of the producer, as the log must know it after whatever happened."""
        entry = self.log.producers.get(PRODUCER)
        if entry is None:
            return 0
        expected = [sequence for sequence, _ in self.sequences]
        if expected:
            assert entry.last_sequence >= expected[-1]
        return entry.last_sequence + 1


LogMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
test_log_against_a_list = LogMachine.TestCase
