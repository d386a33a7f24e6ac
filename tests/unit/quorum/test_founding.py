"""What a voter with an empty directory does, by what the other voters report."""

from __future__ import annotations

import pytest

from ottla.quorum.founding import Decision, Found, Join, Refuse, VoterReport, Wait, decide

EMPTY = VoterReport(None, blank=True)
NEW = VoterReport("X", blank=True)
OLD = VoterReport("X", blank=False)
FOREIGN = VoterReport("Y", blank=False)


def of(
    reports: dict[int, VoterReport], *, local: int = 1, cluster_id: str | None = None, forced: bool = False
) -> Decision:
    return decide(local, cluster_id, [1, 2, 3], reports, forced=forced)


def test_first_voter_founds_when_all_are_reachable_and_empty() -> None:
    assert of({2: EMPTY, 3: EMPTY}) == Found()
    assert isinstance(of({1: EMPTY, 3: EMPTY}, local=2), Wait)


def test_others_join_the_new_cluster() -> None:
    assert of({1: NEW, 3: EMPTY}, local=2) == Join("X", recovering=False)
    assert of({1: NEW, 2: NEW}, local=3) == Join("X", recovering=False)


@pytest.mark.parametrize("cluster_id", [None, "X"])
def test_nothing_is_founded_without_every_voter(cluster_id: str | None) -> None:
    waiting = of({2: EMPTY}, cluster_id=cluster_id)
    assert isinstance(waiting, Wait)
    assert "not reachable: 3" in waiting.reason
    assert isinstance(of({}, cluster_id=cluster_id), Wait)


def test_configured_cluster_id_is_used_when_every_voter_is_blank() -> None:
    assert of({2: NEW, 3: NEW}, cluster_id="X") == Join("X", recovering=False)


def test_voter_with_a_replaced_disk_recovers_from_any_voter_of_the_cluster() -> None:
    assert of({3: OLD}) == Join("X", recovering=True)
    assert of({2: EMPTY, 3: OLD}) == Join("X", recovering=True)
    assert of({2: NEW, 3: OLD}, cluster_id="X") == Join("X", recovering=True)


def test_voters_of_different_clusters_are_refused() -> None:
    assert isinstance(of({2: OLD, 3: FOREIGN}), Refuse)
    assert isinstance(of({2: FOREIGN}, cluster_id="X"), Refuse)


def test_option_to_found_without_voters_does_not_replace_an_existing_cluster() -> None:
    assert of({}, forced=True) == Found()
    assert of({2: EMPTY}, forced=True) == Found()
    assert of({3: OLD}, forced=True) == Join("X", recovering=True)
