"""What is written is read back the same, and hostile bytes are refused in one way only."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.frame_decoder import decode_frame
from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec
from ottla.wire.schema import Message
from tests.property.messages import all_versions, instances

SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize(
    ("message", "version"), all_versions(), ids=lambda value: getattr(value, "__name__", value)
)
@settings(max_examples=12, suppress_health_check=SLOW_DRAWS)
@given(data=st.data())
def test_a_message_is_decoded_as_it_was_encoded(
    message: type[Message], version: int, data: st.DataObject
) -> None:
    written = data.draw(instances(message, version))
    raw = codec.encode(written, version)

    read, position = codec.decode_at(message, raw, version, 0)

    assert read == written
    assert position == len(raw)
    assert codec.decode(message, memoryview(b"before" + raw + b"behind"), version, start=6) == written


@settings(max_examples=60, suppress_health_check=SLOW_DRAWS)
@given(data=st.data(), pair=st.sampled_from(all_versions()))
def test_every_cut_of_a_message_is_refused(data: st.DataObject, pair: tuple[type[Message], int]) -> None:
    message, version = pair
    raw = codec.encode(data.draw(instances(message, version)), version)
    for size in range(len(raw)):
        with pytest.raises(RemoteProtocolError):
            codec.decode(message, raw[:size], version)


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_random_frames_are_read_or_refused(frame: bytes) -> None:
    decode_frame(frame)


@settings(max_examples=100, suppress_health_check=SLOW_DRAWS)
@given(
    data=st.data(),
    pair=st.sampled_from(all_versions()),
    flips=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=4),
)
def test_damaged_messages_are_read_or_refused(
    data: st.DataObject, pair: tuple[type[Message], int], flips: list[tuple[int, int]]
) -> None:
    message, version = pair
    raw = bytearray(codec.encode(data.draw(instances(message, version)), version))
    for position, byte in flips if raw else ():
        raw[position % len(raw)] = byte
    budget = codec.Budget(len(raw))
    try:
        codec.decode(message, bytes(raw), version, budget=budget)
    except RemoteProtocolError:
        return
    assert 0 <= budget.spent <= budget.granted
