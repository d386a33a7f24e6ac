"""When a follower is caught up, leaves the ISR, or is awaited before it joins."""

from __future__ import annotations

from tests.unit.replication.test_leader import LAG, LEADER, Leader, image


def test_a_new_leader_gives_the_members_of_the_isr_time_to_fetch() -> None:
    leader = Leader()
    leader.append(10)
    leader.now += LAG
    assert leader.shrink() is None
    leader.now += 1
    proposal = leader.shrink()
    assert proposal is not None
    assert [one for one, _ in proposal.isr] == [LEADER]


def test_a_follower_that_falls_behind_more_and_more_leaves_the_isr() -> None:
    """It never has what existed at its previous fetch."""
    leader = Leader(isr=(1, 2))
    for offset, end in ((0, 10), (5, 20), (15, 40)):
        leader.now += 12
        leader.append(end)
        leader.fetch(2, offset)
    assert leader.shrink() is not None


def test_only_a_follower_with_all_records_is_caught_up_by_an_empty_fetch() -> None:
    leader = Leader()
    leader.append(10)
    leader.fetch(2, 10)
    leader.fetch(3, 5)
    leader.append(20)
    leader.now += LAG + 1
    for replica_id in (2, 3, 9):
        leader.state.fetched_before(replica_id, leader.now - 1)
    proposal = leader.shrink()
    assert proposal is not None
    assert [one for one, _ in proposal.isr] == [LEADER, 2]


def test_one_change_of_the_isr_is_proposed_at_a_time() -> None:
    leader = Leader()
    leader.append(10)
    leader.fetch(2, 10)
    leader.now += LAG + 1
    assert leader.shrink() is not None
    assert leader.shrink() is None


def test_an_awaited_follower_is_awaited_after_another_change_of_the_partition() -> None:
    leader = Leader(isr=(1, 2))
    leader.append(10)
    for replica_id in (2, 3):
        leader.fetch(replica_id, 10)
    leader.state.update(image((1, 2), partition_epoch=8), leader.now)
    leader.append(20)
    leader.fetch(2, 20)
    assert leader.advance() == 10


def test_the_high_watermark_moves_over_a_follower_whose_addition_was_refused() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 0)
    proposal = leader.expand(3)
    assert proposal is not None
    leader.append(5)
    leader.fetch(2, 5)
    leader.now += 2 * LAG
    leader.state.review(leader.brokers, leader.now, LAG)
    assert leader.advance() == 0
    leader.state.withdraw(proposal)
    assert leader.advance() == 5


def test_a_member_of_the_isr_and_a_stranger_are_not_proposed() -> None:
    leader = Leader()
    leader.fetch(2, 0)
    assert leader.expand(2) is None
    assert leader.expand(9) is None


def test_a_new_min_insync_replicas_holds_for_later_images() -> None:
    leader = Leader()
    leader.state.set_min_insync_replicas(2)
    leader.state.update(image((1,), partition_epoch=8), leader.now)
    leader.append(5)
    assert leader.advance() == 0


def test_a_fetch_that_does_not_list_the_partition_counts_as_one() -> None:
    leader = Leader()
    leader.append(3)
    leader.fetch(2, 3)
    leader.now += 2 * LAG
    leader.state.fetched_before(2, leader.now)
    leader.append(5)
    leader.now += LAG / 2
    leader.fetch(2, 3)  # what the leader had at the fetch before
    follower = leader.state.followers[2]
    assert (follower.caught_up_at, follower.fetched_at) == (leader.now - LAG / 2, leader.now)
