"""Fetch, versions 4-18: sessions from 7 (KIP-227), topic ids from 13, leader hints from 16.

- At least one batch is returned, whatever the limits; later partitions get what is left of `max_bytes`.
- read_committed ends at the last stable offset and lists aborted transactions ([] if none, null otherwise).
- OFFSET_OUT_OF_RANGE comes with -1 for every offset; partitions in error come last.
- A leader epoch the client claims is checked (74, 75); `last_fetched_epoch` yields a diverging epoch.
- An isolation level that does not exist fails the whole request (-1).
"""

from __future__ import annotations

from ottla.base.errors import ErrorCode
from ottla.broker.fetch.fetch_request import Fetch
from ottla.broker.registry import Call, handles_frames
from ottla.wire.apis import ApiKey
from ottla.wire.fetch import FIRST_TOPIC_IDS, FetchRequest, PartitionData, encode_response, parse_request


@handles_frames(ApiKey.FETCH, versions=(4, 18))
def fetch(frame: memoryview, body: int, call: Call) -> None:
    request = parse_request(frame, body, call.api_version)
    if request.isolation_level not in (0, 1):
        call.connection.reply(_refused(request, call))
        return
    broker = call.broker
    context = broker.sessions.context(request, call.api_version, broker.clock.monotonic())
    if context.error:
        call.connection.reply(encode_response(call.api_version, call.correlation_id, context.error, 0, []))
        return
    Fetch(call, request, context, broker.fetch_bytes_max).start()


def _refused(request: FetchRequest, call: Call) -> list[bytes | memoryview]:
    """UNKNOWN_SERVER_ERROR for everything; topics by id are not even named."""
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    topics = []
    for key, wanted in request.topics if call.api_version < FIRST_TOPIC_IDS else ():
        partitions = [PartitionData(one.partition, code) for one in wanted]
        for data in partitions:
            data.aborted = ()
        topics.append((key, partitions))
    return encode_response(call.api_version, call.correlation_id, code, 0, topics)
