"""A client of whole batches: fetches and produces them as bytes, and never looks at a single record.

For those who take batches apart themselves, such as the Spark source and sink. Works with Ottla and Apache Kafka
alike. Blocking, without threads of its own.
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
from ottla.client.raw.fetching import Fetched
from ottla.client.raw.metadata import PartitionInfo, TopicInfo
from ottla.client.raw.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, NO_OFFSET
from ottla.client.raw.producing import Acknowledged, RawProducer
from ottla.client.raw.settings import ClientSettings
from ottla.client.raw.transactions import (
    ProducerIdentity,
    TransactionDescription,
    TransactionEnd,
    describe_transaction,
    end_transaction,
    end_transactions,
    initialise,
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
    "initialise",
]
