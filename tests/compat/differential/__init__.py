"""Requests that are sent to Apache Kafka and to Ottla alike, and the comparison of what both answer."""

from tests.compat.differential import cluster, fetching, offsets, records, settings, topics

ALL = (topics, records, fetching, offsets, settings, cluster)
