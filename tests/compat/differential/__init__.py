"""Requests that are sent to Apache Kafka and to Ottla alike, and the comparison of what both answer."""

from tests.compat.differential import (
    acls,
    cluster,
    consumer_groups,
    fetching,
    group_members,
    group_offsets,
    groups_by_chance,
    offsets,
    reassignments,
    records,
    settings,
    topics,
    transactional_records,
    transactions,
    transactions_by_chance,
    users,
)

ALL = (
    acls,
    topics,
    reassignments,
    records,
    fetching,
    offsets,
    settings,
    cluster,
    group_offsets,
    group_members,
    consumer_groups,
    groups_by_chance,
    transactions,
    transactions_by_chance,
    transactional_records,
    users,
)
