"""When an incremental response includes a partition, for every field of it, against a model of KIP-227.

Kafka 4.3 includes a partition if it has records, an error, a diverging epoch or a preferred read replica, or if its
high watermark or log start offset differs from the last response that included it. The last stable offset, aborted
transactions and the current leader alone do not count. After an error the high watermark counts as unknown.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.fetch.sessions import FetchSessions
from ottla.wire.fetch import FetchPartition, FetchRequest, PartitionData

VERSION = 12
TOPIC = b"t"


@dataclass(frozen=True)
class State:
    """The fields of one partition in a response."""

    error: int = 0
    high_watermark: int = 10
    last_stable_offset: int = 10
    log_start_offset: int = 2
    records: bytes = b""
    aborted: tuple[tuple[int, int], ...] | None = None
    diverging: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    preferred_read_replica: int = -1

    def data(self, index: int) -> PartitionData:
        made = PartitionData(
            index,
            self.error,
            self.high_watermark,
            self.last_stable_offset,
            self.log_start_offset,
            self.records,
        )
        made.aborted, made.diverging, made.current_leader = self.aborted, self.diverging, self.current_leader
        made.preferred_read_replica = self.preferred_read_replica
        return made


# Every field of a partition, a change of it, and whether this change alone puts the partition into the response.
CHANGES: dict[str, tuple[dict[str, object], bool]] = {
    "error": ({"error": 6}, True),
    "high watermark": ({"high_watermark": 11}, True),
    "high watermark that went back": ({"high_watermark": 9}, True),
    "last stable offset": ({"last_stable_offset": 7}, False),
    "log start offset": ({"log_start_offset": 3}, True),
    "records": ({"records": b"batch"}, True),
    "aborted transactions": ({"aborted": ((5, 3),)}, False),
    "diverging epoch": ({"diverging": (1, 4)}, True),
    "preferred read replica": ({"preferred_read_replica": 2}, True),
    "current leader": ({"current_leader": (1, 2)}, False),
}


class Model:
    """What the client was sent about each partition."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}

    def forget(self, index: int) -> None:
        self._known.pop(index, None)

    def includes(self, index: int, state: State) -> bool:
        changed = self._known.get(index, (-1, -1)) != (state.high_watermark, state.log_start_offset)
        self._known[index] = (-1 if state.error else state.high_watermark, state.log_start_offset)
        named = state.preferred_read_replica >= 0
        return changed or named or bool(state.error or state.records or state.diverging)


class Client:
    """A fetch session with its model."""

    def __init__(self, *indexes: int) -> None:
        self._sessions = FetchSessions(random.Random(1), slots=1)
        self._model = Model()
        self._epoch = 0
        context = self._sessions.context(self._request(0, list(indexes)), VERSION, 0.0)
        self._session_id = context.session_id
        self._indexes = list(indexes)
        states = {index: State() for index in indexes}
        full = context.select([(TOPIC, states[index].data(index)) for index in indexes])
        assert [data.index for _, data in full] == list(indexes), "the first response is complete"
        for index in indexes:
            self._model.includes(index, states[index])

    def fetch(
        self, states: dict[int, State], add: list[int] | None = None, forget: list[int] | None = None
    ) -> None:
        """One incremental request: the response holds exactly the partitions that the model expects."""
        for index in forget or []:
            if index in self._indexes and index not in (add or []):
                self._model.forget(index)
                self._indexes.remove(index)
        self._indexes += [index for index in add or [] if index not in self._indexes]
        dropped = [index for index in forget or [] if index not in (add or [])]
        self._epoch += 1
        request = self._request(self._session_id, add or [], dropped)
        context = self._sessions.context(request, VERSION, 0.0)
        wanted = [partition.partition for _, partition in context.wanted]
        assert sorted(wanted) == sorted(self._indexes)
        response = context.select([(TOPIC, states[index].data(index)) for index in wanted])
        expected = [index for index in wanted if self._model.includes(index, states[index])]
        assert [data.index for _, data in response] == expected

    def _request(self, session_id: int, add: list[int], forget: list[int] | None = None) -> FetchRequest:
        wanted = [FetchPartition(index, -1, 0, -1, -1, 1000) for index in add]
        topics = [(TOPIC, wanted)] if wanted else []
        forgotten = [(TOPIC, forget)] if forget else []
        return FetchRequest(-1, 0, 0, 1000, 0, session_id, self._epoch, topics, forgotten, "")


def included(before: State, after: State) -> bool:
    """Whether a response with `after` follows one with `before`."""
    sessions = FetchSessions(random.Random(1), slots=1)
    partition = [(TOPIC, [FetchPartition(0, -1, 0, -1, -1, 1000)])]
    first = sessions.context(FetchRequest(-1, 0, 0, 1000, 0, 0, 0, partition, [], ""), VERSION, 0.0)
    first.select([(TOPIC, before.data(0))])
    second = sessions.context(FetchRequest(-1, 0, 0, 1000, 0, first.session_id, 1, [], [], ""), VERSION, 0.0)
    return bool(second.select([(TOPIC, after.data(0))]))


def test_every_field_of_a_partition_is_covered() -> None:
    fields = {name for change, _ in CHANGES.values() for name in change}
    assert {"error" if name == "error_code" else name for name in PartitionData.__slots__} - {
        "index"
    } == fields


def test_a_partition_that_did_not_change_is_left_out() -> None:
    assert not included(State(), State())


@pytest.mark.parametrize("name", CHANGES)
def test_one_changed_field(name: str) -> None:
    change, expected = CHANGES[name]
    assert included(State(), replace(State(), **change)) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(("one", "other"), list(combinations(CHANGES, 2)))
def test_two_changed_fields(one: str, other: str) -> None:
    changed = replace(State(), **CHANGES[one][0])  # type: ignore[arg-type]
    changed = replace(changed, **CHANGES[other][0])  # type: ignore[arg-type]
    assert included(State(), changed) is (CHANGES[one][1] or CHANGES[other][1])


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_reported_once(name: str) -> None:
    """Values are remembered; records, errors and diverging epochs are part of every response that has them."""
    change, expected = CHANGES[name]
    changed = replace(State(), **change)  # type: ignore[arg-type]
    named = changed.preferred_read_replica >= 0
    repeated = named or bool(changed.records or changed.error or changed.diverging)
    client = Client(0)
    client.fetch({0: changed})
    client.fetch({0: changed})
    assert included(changed, changed) is repeated
    assert expected or not repeated


states = st.builds(
    State,
    error=st.sampled_from([0, 0, 0, 6]),
    high_watermark=st.integers(10, 12),
    last_stable_offset=st.integers(8, 10),
    log_start_offset=st.integers(2, 3),
    records=st.sampled_from([b"", b"", b"batch"]),
    aborted=st.sampled_from([None, (), ((5, 3),)]),
    diverging=st.sampled_from([None, None, (1, 4)]),
    preferred_read_replica=st.sampled_from([-1, -1, 2]),
)
step = st.tuples(
    st.lists(states, min_size=4, max_size=4),
    st.lists(st.integers(0, 3), max_size=2, unique=True),
    st.lists(st.integers(0, 3), max_size=1),
)


@given(st.lists(step, max_size=8))
def test_any_sequence_of_responses_follows_the_model(
    steps: list[tuple[list[State], list[int], list[int]]],
) -> None:
    client = Client(0, 1)
    client.fetch({0: State(), 1: State(), 2: State()}, add=[2])
    for values, add, forget in steps:
        # Partition 2 stays: a session without partitions ends.
        client.fetch(dict(enumerate(values)), add, [index for index in forget if index != 2])
