"""Client that fetches and produces whole record batches as bytes, without decoding single records.

The Spark source and sink use it to encode and decode batches themselves. It works with Ottla and Apache Kafka. It
blocks and has no threads.
"""

from ottla.client.raw.cache import close_all, cluster_for
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.errors import (
    AuthenticationFailed,
    ClientError,
    ClusterReplaced,
    ClusterUnreachable,
    Fenced,
    OffsetOutOfRange,
    Refused,
    TimedOut,
    UnknownTopic,
    Unsupported,
)
from ottla.client.raw.fetch import Fetched
from ottla.client.raw.metadata import PartitionInfo, TopicInfo
from ottla.client.raw.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, NO_OFFSET
from ottla.client.raw.producer import Acknowledged, RawProducer
from ottla.client.raw.settings import ClientSettings
from ottla.client.raw.transactions import (
    ProducerIdentity,
    TransactionDescription,
    TransactionEnd,
    describe_transaction,
    end_transaction,
    end_transactions,
    init_producer_id,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "MAX_TIMESTAMP",
    "NO_OFFSET",
    "Acknowledged",
    "AuthenticationFailed",
    "ClientError",
    "ClientSettings",
    "Cluster",
    "ClusterReplaced",
    "ClusterUnreachable",
    "Fenced",
    "Fetched",
    "OffsetOutOfRange",
    "PartitionInfo",
    "ProducerIdentity",
    "RawProducer",
    "Refused",
    "TimedOut",
    "TopicInfo",
    "TransactionDescription",
    "TransactionEnd",
    "UnknownTopic",
    "Unsupported",
    "close_all",
    "cluster_for",
    "describe_transaction",
    "end_transaction",
    "end_transactions",
    "init_producer_id",
]
