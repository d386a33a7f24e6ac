"""How a voter with an empty directory becomes part of a cluster: it founds one, joins one, waits, or refuses.

Pure: `decide` looks at what the other voters report. Decision 19 explains the rules:

- A new cluster is founded only if every voter is reachable and blank: it has neither records nor an epoch. The voter
  with the lowest id then chooses the cluster id, unless a voter has one already.
- If any voter is not blank, its cluster exists. A voter with an empty directory has lost its log, and joins it as a
  recovering voter: it gives no vote before it has the log again (`quorum.raft.recovery`).
- Voters of different clusters are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class VoterReport(NamedTuple):
    """The state of another voter, as it reported it."""

    cluster_id: str | None
    """None if the voter does not belong to a cluster yet."""
    blank: bool
    """It has no records, has seen no epoch, and is not recovering."""


class Wait(NamedTuple):
    """Nothing can be decided yet."""

    reason: str


class Join(NamedTuple):
    """Become a voter of this cluster."""

    cluster_id: str
    recovering: bool
    """The cluster has records that this voter may have lost."""


class Found(NamedTuple):
    """Choose the id of a new cluster, and become a voter of it."""


class Refuse(NamedTuple):
    """The voters do not form one cluster."""

    reason: str


Decision = Wait | Join | Found | Refuse


def decide(
    local_id: int,
    cluster_id: str | None,
    voter_ids: Sequence[int],
    reports: Mapping[int, VoterReport],
    *,
    forced: bool = False,
) -> Decision:
    """Decide for the voter `local_id`, which is blank and has `cluster_id` from its settings or directories, if any.

    `reports` has the voters that responded. With `forced`, voters that did not respond count as blank.
    """
    ids = {each.cluster_id for each in reports.values()} | {cluster_id}
    known = sorted(each for each in ids if each is not None)
    if len(known) > 1:
        return Refuse(f"the voters belong to different clusters: {_clusters(local_id, cluster_id, reports)}")
    if known and not all(report.blank for report in reports.values()):
        return Join(known[0], recovering=True)
    missing = [each for each in voter_ids if each != local_id and each not in reports]
    if missing and not forced:
        return Wait(
            f"founding a cluster needs every voter; not reachable: {', '.join(map(str, sorted(missing)))}"
        )
    if known:
        return Join(known[0], recovering=False)
    first = min([local_id, *reports])
    return Found() if first == local_id else Wait(f"node {first} chooses the cluster id")


def _clusters(local_id: int, cluster_id: str | None, reports: Mapping[int, VoterReport]) -> str:
    found = {local_id: cluster_id, **{node_id: report.cluster_id for node_id, report in reports.items()}}
    return ", ".join(f"node {node_id} {found[node_id]}" for node_id in sorted(found) if found[node_id])
