"""Requests that are sent to Apache Kafka and to Ottla alike, and the comparison of what both answer."""

from tests.compat.differential import offsets, records, topics

ALL = (topics, records, offsets)
