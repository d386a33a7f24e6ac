"""Producer state against a model that remembers everything."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.base.errors import ApiError, ErrorCode
from ottla.storage.producers.producer_snapshot import decode, encode
from ottla.storage.producers.producer_state import Duplicate, ProducerState

NEVER_MS = 2**60
WRAP = 2**31
PRODUCERS = st.sampled_from([1, 2])


class Model:
    """What a producer wrote in its epoch: (first sequence, last sequence, base offset) of each batch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[tuple[int, int, int]] = []
        self.open_at: int | None = None


class ProducerStateMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.state = ProducerState(NEVER_MS)
        self.model: dict[int, Model] = {}
        self.unreplicated: list[tuple[int, int]] = []  # first and marker offset of ended transactions

    def _append(self, producer: int, epoch: int, first: int, count: int, transactional: bool) -> None:
        model = self.model.setdefault(producer, Model(epoch))
        if model.epoch != epoch:
            model.epoch, model.batches = epoch, []
        base, last = self.state.end_offset, (first + count - 1) % WRAP
        self.state.append_batch(
            producer,
            epoch,
            last,
            base_offset=base,
            last_offset=base + count - 1,
            timestamp=0,
            transactional=transactional,
        )
        model.batches.append((first, last, base))
        if transactional and model.open_at is None:
            model.open_at = base

    @rule(
        producer=PRODUCERS,
        bump=st.sampled_from([0, 0, 0, 1]),
        start=st.sampled_from([0, WRAP - 2]),
        count=st.integers(1, 3),
        transactional=st.booleans(),
    )
    def write_next(self, producer: int, bump: int, start: int, count: int, transactional: bool) -> None:
        """The batch that a well-behaved producer sends is accepted."""
        model = self.model.get(producer)
        first = start
        if model is not None:
            first = (model.batches[-1][1] + 1) % WRAP if model.batches and not bump else 0
            transactional = transactional or model.open_at is not None
        epoch = model.epoch + bump if model else 0
        last = (first + count - 1) % WRAP
        assert self.state.check(producer, epoch, first, last, transactional=transactional) is None
        self._append(producer, epoch, first, count, transactional)

    @rule(producer=PRODUCERS, back=st.integers(1, 12))
    def retry(self, producer: int, back: int) -> None:
        """A retry is recognised while it is among the last five, and refused afterwards."""
        model = self.model.get(producer)
        if model is None or back > len(model.batches):
            return
        first, last, base = model.batches[-back]
        if back <= 5:
            found = self.state.check(producer, model.epoch, first, last, transactional=True)
            assert found == Duplicate(base, base + (last - first) % WRAP, 0)
        else:
            self._refused(producer, model.epoch, first, last, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    @rule(producer=PRODUCERS, gap=st.integers(1, 5))
    def skip(self, producer: int, gap: int) -> None:
        model = self.model.get(producer)
        if model is not None:
            next_sequence = model.batches[-1][1] + 1 if model.batches else 0
            first = (next_sequence + gap) % WRAP
            self._refused(producer, model.epoch, first, first, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            self._refused(producer, model.epoch + 1, gap, gap, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    @rule(producer=PRODUCERS)
    def zombie(self, producer: int) -> None:
        model = self.model.get(producer)
        if model is not None:
            self._refused(producer, model.epoch - 1, 0, 0, ErrorCode.INVALID_PRODUCER_EPOCH)

    def _refused(self, producer: int, epoch: int, first: int, last: int, code: ErrorCode) -> None:
        before = list(self.state.snapshot())
        with pytest.raises(ApiError) as caught:
            self.state.check(producer, epoch, first, last, transactional=True)
        assert caught.value.code is code
        assert list(self.state.snapshot()) == before

    @rule(producer=PRODUCERS, aborted=st.booleans())
    def end_transaction(self, producer: int, aborted: bool) -> None:
        model = self.model.get(producer)
        if model is None:
            return
        offset = self.state.end_offset
        ended = self.state.append_marker(
            producer, model.epoch, 0, offset=offset, timestamp=0, aborted=aborted
        )
        if model.open_at is None:
            assert ended is None
            return
        assert ended is not None
        assert (ended.first_offset, ended.last_offset, ended.aborted) == (model.open_at, offset, aborted)
        self.unreplicated.append((model.open_at, offset))
        model.open_at = None
        still_open = [other.open_at for other in self.model.values() if other.open_at is not None]
        assert ended.last_stable_offset == min(still_open, default=offset + 1)

    @rule(lag=st.integers(0, 6))
    def replicate(self, lag: int) -> None:
        high_watermark = max(0, self.state.end_offset - lag)
        self.state.high_watermark_moved(high_watermark)
        self.unreplicated = [txn for txn in self.unreplicated if txn[1] >= high_watermark]

    @rule()
    def restart(self) -> None:
        """A snapshot keeps the last batch of each producer and the open transactions."""
        self.state.high_watermark_moved(self.state.end_offset)
        self.unreplicated = []
        again = ProducerState(NEVER_MS)
        again.load(decode(encode(self.state.snapshot())), self.state.end_offset, 0)
        assert list(again.snapshot()) == list(self.state.snapshot())
        self.state = again
        for model in self.model.values():
            model.batches = model.batches[-1:]

    @invariant()
    def first_unstable_offset(self) -> None:
        undecided = [model.open_at for model in self.model.values() if model.open_at is not None]
        waiting = [first for first, _ in self.unreplicated]
        assert self.state.first_unstable_offset == min(undecided + waiting, default=None)


TestProducerState = ProducerStateMachine.TestCase
TestProducerState.settings = settings(max_examples=60, stateful_step_count=40)
