"""Parallel consumer for any Kafka cluster, based on confluent-kafka: many records at once, each key in order.

    from ottla.client.parallel import Options, ParallelConsumer

    def handle(message): ...

    ParallelConsumer({"bootstrap.servers": "...", "group.id": "..."}, ["topic"], handle, Options(workers=100)).run()

See `docs/PARALLEL_CONSUMER.md`.
"""

from ottla.client.parallel.consumer import ParallelConsumer
from ottla.client.parallel.errors import (
    ConsumerFailed,
    DeadLetterFailed,
    ParallelConsumerError,
    RecordFailed,
    Unprocessable,
)
from ottla.client.parallel.options import Options, Order, RetryPolicy
from ottla.client.parallel.progress import PartitionProgress, Progress

__all__ = [
    "ConsumerFailed",
    "DeadLetterFailed",
    "Options",
    "Order",
    "ParallelConsumer",
    "ParallelConsumerError",
    "PartitionProgress",
    "Progress",
    "RecordFailed",
    "RetryPolicy",
    "Unprocessable",
]
