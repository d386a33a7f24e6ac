"""Who a node is: cluster id, node id and the id of each of its log directories, kept in `meta.properties`.

No format step: an empty directory takes its place when the node first starts. What is there already must fit,
because a broker that joins a foreign cluster, or serves another broker's data, destroys more than it helps.

Crash policy: each file is replaced as a whole. A node stopped between two directories finds the same cluster
id in the first and goes on.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.base.errors import LocalError
from ottla.base.files import Disk
from ottla.base.ids import METADATA_TOPIC, uuid_text
from ottla.base.rng import Random, random_uuid
from ottla.storage.checkpoints import (
    META_PROPERTIES_FILE,
    CorruptCheckpoint,
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)


class Identity(NamedTuple):
    """The ids of a node; directories by path."""

    cluster_id: str
    node_id: int
    directory_ids: Mapping[str, uuid.UUID]


def establish_identity(
    disk: Disk, directories: Sequence[str], node_id: int, *, cluster_id: str | None, rng: Random
) -> Identity:
    """Read the identity of existing directories and give one to new ones.

    `cluster_id` is what the operator demands, if anything. Raises LocalError where directories do not belong
    together or to this node.
    """
    found = {directory: _read(disk, directory) for directory in directories}
    known = {meta.cluster_id for meta in found.values() if meta is not None and meta.cluster_id is not None}
    if cluster_id is not None:
        known.add(cluster_id)
    if len(known) > 1:
        raise LocalError(f"log directories and settings name several clusters: {', '.join(sorted(known))}")
    chosen = known.pop() if known else uuid_text(random_uuid(rng))
    directory_ids: dict[str, uuid.UUID] = {}
    for directory, meta in found.items():
        if meta is not None and meta.node_id is not None and meta.node_id != node_id:
            raise LocalError(f"{directory} belongs to node {meta.node_id}, this is node {node_id}")
        directory_id = None if meta is None else meta.directory_id
        if directory_id is None:
            directory_id = random_uuid(rng)
        if directory_id in directory_ids.values():
            raise LocalError(f"{directory} has the directory id of another log directory: is it a copy?")
        directory_ids[directory] = directory_id
        complete = MetaProperties(chosen, node_id, directory_id)
        if meta != complete:
            write_meta_properties(disk, _path(directory), complete)
    return Identity(chosen, node_id, directory_ids)


def _read(disk: Disk, directory: str) -> MetaProperties | None:
    disk.makedirs(directory)
    try:
        meta = read_meta_properties(disk, _path(directory))
    except CorruptCheckpoint as error:
        raise LocalError(str(error)) from error
    if meta is None and disk.is_dir(f"{directory}/{METADATA_TOPIC}-0"):
        raise LocalError(
            f"{directory} has a metadata log but no {META_PROPERTIES_FILE}: what cluster is it of?"
        )
    return meta


def _path(directory: str) -> str:
    return f"{directory}/{META_PROPERTIES_FILE}"
