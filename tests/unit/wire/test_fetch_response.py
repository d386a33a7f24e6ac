"""The decoder of Fetch responses agrees with the declared message and survives damaged bytes."""

from __future__ import annotations

import random
import struct
from uuid import UUID

import pytest

from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec, fetch_response
from ottla.wire.fetch_response import FetchedResponse, parse_response
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

VERSIONS = (16, 17, 18)


def fields_of(response: FetchedResponse) -> tuple[object, ...]:
    """All that was decoded, to be compared."""
    partitions = [
        (
            one.topic_id,
            one.partition,
            one.error_code,
            one.high_watermark,
            one.log_start_offset,
            one.diverging,
            one.records,
        )
        for one in response.partitions
    ]
    return response.error_code, response.session_id, partitions


def random_response(rng: random.Random) -> FetchResponse:
    def partition(index: int) -> PartitionData:
        made = PartitionData(
            partition_index=index,
            error_code=rng.choice([0, 0, 1, 74]),
            high_watermark=rng.randint(-1, 1 << 40),
            last_stable_offset=rng.randint(-1, 1 << 40),
            log_start_offset=rng.randint(-1, 1 << 40),
            aborted_transactions=rng.choice(
                [None, [], [AbortedTransaction(producer_id=1, first_offset=2)] * 3]
            ),
            records=rng.choice([None, b"", bytes(rng.randint(1, 400))]),
        )
        if rng.random() < 0.3:
            made.diverging_epoch = EpochEndOffset(epoch=rng.randint(0, 9), end_offset=rng.randint(0, 99))
        if rng.random() < 0.3:
            made.current_leader = LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
        return made

    return FetchResponse(
        throttle_time_ms=rng.randint(0, 9),
        error_code=rng.choice([0, 70]),
        session_id=rng.randint(0, 1 << 30),
        responses=[
            FetchableTopicResponse(
                topic_id=UUID(int=rng.randint(1, 1 << 100)),
                partitions=[partition(index) for index in range(rng.randint(0, 4))],
            )
            for _ in range(rng.randint(0, 4))
        ],
        node_endpoints=[NodeEndpoint(node_id=1, host="h", port=9)] if rng.random() < 0.3 else [],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_all_fields_agree_with_the_declared_message(version: int) -> None:
    rng = random.Random(version)
    for _ in range(200):
        message = random_response(rng)
        encoded = b"header" + bytes(codec.encode(message, version))
        parsed = parse_response(memoryview(encoded), 6)
        expected = [
            (
                topic.topic_id.bytes,
                one.partition_index,
                one.error_code,
                one.high_watermark,
                one.log_start_offset,
                None
                if one.diverging_epoch.epoch < 0
                else (one.diverging_epoch.epoch, one.diverging_epoch.end_offset),
                one.records or b"",
            )
            for topic in message.responses
            for one in topic.partitions
        ]
        assert fields_of(parsed) == (message.error_code, message.session_id, expected)


def test_a_response_that_ends_too_early_is_refused() -> None:
    rng = random.Random(5)
    for _ in range(50):
        encoded = bytes(codec.encode(random_response(rng), 17))
        whole = parse_response(memoryview(encoded), 0)
        for end in range(len(encoded)):
            try:
                cut = parse_response(memoryview(encoded[:end]), 0)
            except RemoteProtocolError:
                continue
            assert fields_of(cut) == fields_of(whole), "only the tagged fields at the end may be missing"


def test_a_response_with_one_partition_is_read_as_any_other() -> None:
    rng = random.Random(7)
    quick = 0
    for _ in range(300):
        message = random_response(rng)
        message.responses = [one for one in message.responses if one.partitions][:1]
        for topic in message.responses:
            topic.partitions = topic.partitions[:1]
        encoded = bytearray(codec.encode(message, 17))
        encoded[rng.randrange(len(encoded))] ^= rng.choice([0, 1, 2, 128])
        found = fetch_response._parse_one(memoryview(encoded), 0)
        try:
            whole = fetch_response._parse(memoryview(encoded), 0)
        except (RemoteProtocolError, IndexError, struct.error):
            assert found is None
            continue
        assert found is None or fields_of(found) == fields_of(whole)
        quick += found is not None
    assert quick > 30
