"""Type names for ids and offsets that all layers use, and Kafka's text form of a UUID."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import NamedTuple, NewType

Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
BrokerId = NewType("BrokerId", int)
PartitionIndex = NewType("PartitionIndex", int)
ProducerId = NewType("ProducerId", int)

Uuid = uuid.UUID
ZERO_UUID = uuid.UUID(int=0)
METADATA_TOPIC_ID = uuid.UUID(int=1)
METADATA_TOPIC = "__cluster_metadata"


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(value: uuid.UUID) -> str:
    """Kafka's text form: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def parse_uuid(text: str) -> uuid.UUID:
    """The inverse of `uuid_text`; raises ValueError with what was wrong."""
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a base64 UUID") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} decodes to {len(raw)} bytes, a UUID has 16")
    return uuid.UUID(bytes=raw)
