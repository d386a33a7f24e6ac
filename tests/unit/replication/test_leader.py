"""The leader's state of a partition: rules one by one, and a model with crashes, stale messages and elections."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.image import BrokerImage, PartitionImage
from ottla.replication.leader import IsrProposal, LeaderState

LEADER, LAG = 1, 30.0
OWN_EPOCH = 100


def broker(broker_id: int, epoch: int = 0, **state: object) -> BrokerImage:
    return BrokerImage(broker_id, epoch, uuid.UUID(int=0), **{"fenced": False, **state})  # type: ignore[arg-type]


def image(
    isr: Iterable[int] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    *,
    leader_epoch: int = 5,
    partition_epoch: int = 7,
) -> PartitionImage:
    return PartitionImage(
        replicas=replicas,
        directories=(uuid.UUID(int=0),) * len(replicas),
        isr=tuple(isr),
        leader=LEADER,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
    )


class Leader:
    """A LeaderState with the offsets and brokers around it."""

    def __init__(self, isr: tuple[int, ...] = (1, 2, 3), epoch_start: int = 0, min_isr: int = 1) -> None:
        self.now = 1000.0
        self.end = epoch_start
        self.committable = epoch_start
        self.high_watermark = 0
        self.brokers = {one: broker(one, one * 10) for one in (1, 2, 3)}
        self.state = LeaderState(LEADER, image(isr), epoch_start, min_isr, self.now)

    def append(self, end: int, committable: int | None = None) -> None:
        self.end = end
        self.committable = end if committable is None else committable

    def fetch(self, replica_id: int, offset: int, epoch: int | None = None) -> None:
        self.state.fetched(
            replica_id,
            replica_id * 10 if epoch is None else epoch,
            offset,
            0,
            leader_end=self.end,
            brokers=self.brokers,
            now=self.now,
            lag_max=LAG,
        )

    def advance(self) -> int:
        self.high_watermark = self.state.high_watermark(self.committable, self.high_watermark)
        return self.high_watermark

    def expand(self, replica_id: int) -> IsrProposal | None:
        return self.state.propose_expansion(replica_id, self.high_watermark, self.brokers, OWN_EPOCH)

    def shrink(self) -> IsrProposal | None:
        return self.state.propose_shrink(self.end, self.now, LAG, OWN_EPOCH)


def test_the_high_watermark_is_the_smallest_end_of_the_isr_and_never_moves_back() -> None:
    leader = Leader()
    leader.append(10)
    assert leader.advance() == 0
    leader.fetch(2, 6)
    assert leader.advance() == 0
    leader.fetch(3, 8)
    assert leader.advance() == 6
    leader.fetch(2, 10)
    leader.fetch(3, 3)  # a follower that lost records
    assert leader.advance() == 6


def test_what_the_leader_has_not_synced_is_not_committed() -> None:
    leader = Leader()
    leader.append(10, committable=4)
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    assert leader.advance() == 4


def test_a_replica_outside_the_isr_that_lags_does_not_count() -> None:
    leader = Leader(isr=(1, 2))
    leader.append(10)
    leader.fetch(3, 0)
    leader.fetch(2, 9)
    assert leader.advance() == 9


def test_the_high_watermark_stands_still_below_min_insync_replicas() -> None:
    leader = Leader(isr=(1,), min_isr=2)
    leader.append(10)
    assert leader.advance() == 0
    leader.fetch(2, 10)
    assert leader.expand(2) is not None
    assert leader.advance() == 0
    leader.state.update(image((1, 2), partition_epoch=8), leader.now)
    assert leader.advance() == 10


def test_min_insync_replicas_is_capped_at_the_number_of_replicas() -> None:
    state = LeaderState(LEADER, image((1, 2), (1, 2)), 0, 3, 0.0)
    assert state.high_watermark(0, 0) == 0
    state.fetched(2, 20, 5, 0, leader_end=5, brokers={}, now=1.0, lag_max=LAG)
    assert state.high_watermark(5, 0) == 5


def test_an_addition_counts_as_soon_as_it_is_proposed() -> None:
    leader = Leader(isr=(1, 2))
    leader.append(10)
    leader.fetch(2, 10)
    leader.fetch(3, 10)
    assert leader.advance() == 10
    proposal = leader.expand(3)
    assert proposal == IsrProposal(5, 7, ((1, OWN_EPOCH), (2, 20), (3, 30)))
    assert leader.state.maximal_isr == {1, 2, 3}
    leader.append(20)
    leader.fetch(2, 20)
    leader.now += 10 * LAG
    leader.state.review(leader.brokers, leader.now, LAG)
    assert leader.advance() == 10


def test_one_proposal_at_a_time() -> None:
    leader = Leader(isr=(1,))
    leader.fetch(2, 0)
    leader.fetch(3, 0)
    assert leader.expand(2) is not None
    assert leader.expand(3) is None
    leader.now += 2 * LAG
    assert leader.shrink() is None


def test_a_refused_addition_no_longer_counts_and_an_unknown_one_does() -> None:
    leader = Leader(isr=(1, 2))
    proposal = (leader.fetch(3, 0), leader.expand(3))[1]
    assert proposal is not None
    assert not leader.state.withdraw(proposal._replace(partition_epoch=6))
    assert leader.state.maximal_isr == {1, 2, 3}
    assert leader.state.withdraw(proposal)
    assert leader.state.maximal_isr == {1, 2}
    assert leader.state.pending is None


def test_a_removal_counts_only_when_the_image_contains_it() -> None:
    leader = Leader()
    leader.now += LAG + 1
    leader.append(10)
    leader.fetch(2, 10)
    proposal = leader.shrink()
    assert proposal == IsrProposal(5, 7, ((1, OWN_EPOCH), (2, 20)))
    assert leader.state.maximal_isr == {1, 2, 3}
    assert leader.advance() == 0
    leader.state.update(image((1, 2), partition_epoch=8), leader.now)
    assert leader.state.pending is None
    assert leader.advance() == 10


def test_an_image_without_a_change_of_the_partition_does_not_resolve_a_proposal() -> None:
    leader = Leader(isr=(1, 2))
    leader.fetch(3, 0)
    leader.expand(3)
    leader.state.update(image((1, 2)), leader.now)
    assert leader.state.maximal_isr == {1, 2, 3}


@pytest.mark.parametrize(("end", "joins"), [(3, False), (4, True)])
def test_a_follower_joins_when_it_has_reached_the_high_watermark(end: int, joins: bool) -> None:
    leader = Leader(isr=(1, 2))
    leader.append(9)
    leader.fetch(2, 4)
    assert leader.advance() == 4
    leader.fetch(3, end)
    assert (leader.expand(3) is not None) is joins


@pytest.mark.parametrize(("end", "joins"), [(7, False), (8, True)])
def test_a_follower_joins_when_it_has_reached_the_start_of_the_leader_epoch(end: int, joins: bool) -> None:
    leader = Leader(isr=(1, 2), epoch_start=8)
    assert leader.advance() == 0
    leader.fetch(3, end)
    assert (leader.expand(3) is not None) is joins


@pytest.mark.parametrize(
    "other",
    [
        broker(3, 30, fenced=True),
        broker(3, 30, in_controlled_shutdown=True),
        broker(3, 29),
        None,
    ],
)
def test_a_follower_joins_only_if_its_broker_is_active_and_the_one_that_fetched(
    other: BrokerImage | None,
) -> None:
    leader = Leader(isr=(1, 2))
    if other is None:
        del leader.brokers[3]
    else:
        leader.brokers[3] = other
    leader.fetch(3, 0)
    assert leader.expand(3) is None


def test_a_follower_that_has_not_fetched_in_this_epoch_does_not_join() -> None:
    assert Leader(isr=(1, 2)).expand(3) is None


def test_a_fetch_of_an_earlier_incarnation_is_refused() -> None:
    leader = Leader()
    with pytest.raises(ApiError) as refused:
        leader.fetch(2, 5, epoch=19)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.fetch(2, 3, epoch=21)  # its registration is not in the image yet
    with pytest.raises(ApiError):
        leader.fetch(2, 5, epoch=20)
    assert leader.state.followers[2].end_offset == 3
    leader.fetch(2, 4, epoch=-1)
    with pytest.raises(ApiError):
        leader.fetch(9, 5)


def test_a_follower_that_reaches_the_end_of_its_last_fetch_is_caught_up() -> None:
    leader = Leader()
    for _ in range(10):  # always behind the end, never behind the end at the fetch before
        leader.fetch(2, leader.end)
        leader.fetch(3, max(0, leader.end - 1))
        leader.append(leader.end + 1)
        leader.now += LAG / 2
    proposal = leader.shrink()
    assert proposal is None
    leader.append(leader.end + 5)
    leader.now += LAG
    proposal = leader.shrink()
    assert proposal is not None
    assert [one for one, _ in proposal.isr] == [1]


def test_a_follower_with_the_whole_log_stays_although_nothing_was_fetched_for_long() -> None:
    leader = Leader()
    leader.append(3)
    leader.fetch(2, 3)
    leader.fetch(3, 3)
    leader.now += 100 * LAG
    assert leader.shrink() is None


def test_the_high_watermark_waits_for_a_caught_up_follower_that_may_join() -> None:
    leader = Leader(isr=(1,))
    leader.append(10)
    leader.fetch(2, 0)
    assert leader.advance() == 10
    leader.append(20)
    assert leader.advance() == 20
    leader.fetch(2, 10)  # the end at its last fetch: caught up, but behind the high watermark
    assert leader.expand(2) is None
    leader.append(30)
    assert leader.advance() == 20
    leader.fetch(2, 20)
    assert leader.expand(2) is not None


@pytest.mark.parametrize("reason", ["fenced", "late"])
def test_the_high_watermark_no_longer_waits_for_a_follower_that_cannot_join(reason: str) -> None:
    leader = Leader(isr=(1,))
    leader.append(10)
    leader.fetch(2, 0)
    leader.append(20)
    leader.fetch(2, 10)
    leader.append(30)
    assert leader.advance() == 10
    if reason == "fenced":
        leader.brokers[2] = broker(2, 20, fenced=True)
    else:
        leader.now += LAG + 1
    assert leader.state.review(leader.brokers, leader.now, LAG)
    assert leader.advance() == 30
    assert not leader.state.review(leader.brokers, leader.now, LAG)


def test_a_replica_that_left_the_isr_is_not_awaited() -> None:
    leader = Leader(isr=(1,))
    leader.fetch(2, 0)
    leader.state.update(image((1, 2), partition_epoch=8), leader.now)
    leader.state.update(image((1,), partition_epoch=9), leader.now)
    leader.append(10)
    assert leader.advance() == 10


# A model: brokers with durable and volatile logs, a controller, messages that are late or lost.

Record = tuple[int, int]
"""leader epoch, number"""


@dataclass
class Replica:
    broker_epoch: int
    durable: list[Record] = field(default_factory=list)
    volatile: list[Record] = field(default_factory=list)
    image: PartitionImage | None = None
    up: bool = True

    @property
    def log(self) -> list[Record]:
        return self.durable + self.volatile


class Cluster:
    """Three replicas of one partition. Every step keeps: committed records are in every durable log of the ISR."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.min_isr = self.rng.choice((1, 2))
        self.now = 0.0
        self.numbers = 0
        self.epochs = 100
        self.replicas = {one: Replica(one) for one in (1, 2, 3)}
        self.brokers = {one: broker(one, one) for one in (1, 2, 3)}
        self.controller = image(leader_epoch=0, partition_epoch=0)
        self.leading: dict[int, tuple[LeaderState, int]] = {}
        """The states of those that believe to lead, with their high watermarks."""
        self.committed: list[Record] = []
        self.images: list[tuple[int, PartitionImage]] = []
        self.fetches: list[tuple[int, int, int, int, int]] = []
        self.proposals: list[tuple[int, IsrProposal]] = []
        self.joined = self.acknowledged = 0
        self.publish()
        for one in self.replicas:
            self.become(one, self.controller)

    # The controller

    def publish(self) -> None:
        self.images += [(one, self.controller) for one in self.replicas]

    def change(self, isr: tuple[int, ...], leader: int) -> None:
        old = self.controller
        bump = leader != old.leader
        self.controller = PartitionImage(
            replicas=old.replicas,
            directories=old.directories,
            isr=isr,
            leader=leader,
            leader_epoch=old.leader_epoch + bump,
            partition_epoch=old.partition_epoch + 1,
        )
        self.publish()

    def remove(self, one: int) -> None:
        """Fence a broker: it leaves the ISR unless it is the last one, which no replica replaces."""
        isr = tuple(each for each in self.controller.isr if each != one)
        if self.controller.leader == one or len(isr) < len(self.controller.isr):
            if not isr:
                self.change(self.controller.isr, -1)
            else:
                active = [each for each in isr if self.brokers[each].active]
                stays = self.controller.leader if self.controller.leader in active else None
                self.change(isr, stays or (self.rng.choice(active) if active else -1))

    def elect(self) -> None:
        if self.controller.leader == -1:
            active = [each for each in self.controller.isr if self.brokers[each].active]
            if active:
                self.change(self.controller.isr, self.rng.choice(active))

    def alter_partition(self, proposer: int, proposal: IsrProposal) -> None:
        if proposal.leader_epoch != self.controller.leader_epoch:
            return
        if proposal.partition_epoch != self.controller.partition_epoch:
            return
        if any(
            not self.brokers[one].active or epoch not in (-1, self.brokers[one].epoch)
            for one, epoch in proposal.isr
        ):
            state = self.leading.get(proposer)
            if state is not None and self.rng.random() < 0.7:
                state[0].withdraw(proposal)
            return
        self.joined += len(proposal.isr) > len(self.controller.isr)
        self.change(tuple(one for one, _ in proposal.isr), proposer)

    # The brokers

    def become(self, one: int, new: PartitionImage) -> None:
        replica = self.replicas[one]
        if not replica.up or (replica.image and new.partition_epoch <= replica.image.partition_epoch):
            return
        old, replica.image = replica.image, new
        if new.leader != one:
            self.leading.pop(one, None)
        elif old is not None and old.leader == one and old.leader_epoch == new.leader_epoch:
            self.leading[one][0].update(new, self.now)
        else:
            start = len(replica.log)
            self.leading[one] = (LeaderState(one, new, start, self.min_isr, self.now), 0)
        self.advance(one)

    def advance(self, one: int) -> None:
        if one not in self.leading:
            return
        state, high_watermark = self.leading[one]
        durable = self.replicas[one].durable
        reached = state.high_watermark(len(durable), high_watermark)
        assert reached >= high_watermark
        self.leading[one] = (state, reached)
        if reached > len(self.committed):
            assert durable[: len(self.committed)] == self.committed
            self.acknowledged += reached - len(self.committed)
            self.committed = durable[:reached]
            for member in state.maximal_isr:
                assert self.replicas[member].durable[:reached] == self.committed, member

    def fetch(self, follower: int) -> None:
        """Copy from the leader that the follower knows, and report the durable end; the report may be late."""
        replica = self.replicas[follower]
        leader = replica.image.leader if replica.image else -1
        if not replica.up or leader in (-1, follower) or leader not in self.leading:
            return
        known = self.replicas[leader].image
        if replica.image is None or known is None or known.leader_epoch != replica.image.leader_epoch:
            return
        theirs, own = self.replicas[leader].log, replica.log
        common = next((at for at, (a, b) in enumerate(zip(theirs, own, strict=False)) if a != b), None)
        if common is None and len(own) > len(theirs):
            common = len(theirs)
        if common is not None:
            replica.durable = replica.durable[:common]
            replica.volatile = replica.volatile[: max(0, common - len(replica.durable))]
            return
        self.fetches.append(
            (leader, follower, replica.broker_epoch, len(replica.durable), replica.image.leader_epoch)
        )
        replica.volatile += theirs[len(own) : len(own) + self.rng.randint(0, 3)]

    def deliver_fetch(self, leader: int, follower: int, epoch: int, offset: int, leader_epoch: int) -> None:
        known = self.replicas[leader].image
        if leader not in self.leading or known is None or known.leader_epoch != leader_epoch:
            return  # fenced by the leader epoch
        state, high_watermark = self.leading[leader]
        try:
            state.fetched(
                follower,
                epoch,
                offset,
                0,
                leader_end=len(self.replicas[leader].log),
                brokers=self.brokers,
                now=self.now,
                lag_max=LAG,
            )
        except ApiError:
            return
        own = self.replicas[leader].broker_epoch
        proposal = state.propose_expansion(follower, high_watermark, self.brokers, own)
        if proposal is not None:
            self.proposals.append((leader, proposal))
        self.advance(leader)

    def crash(self, one: int) -> None:
        replica = self.replicas[one]
        replica.up, replica.volatile = False, []
        self.leading.pop(one, None)
        self.brokers[one] = broker(one, replica.broker_epoch, fenced=True)
        self.remove(one)

    def restart(self, one: int) -> None:
        replica = self.replicas[one]
        if not replica.up:
            self.epochs += 1
            replica.up, replica.broker_epoch, replica.image = True, self.epochs, None
            self.brokers[one] = broker(one, self.epochs)
            self.elect()
            self.images.append((one, self.controller))

    def step(self) -> None:
        one = self.rng.choice((1, 2, 3))
        replica = self.replicas[one]
        self.now += self.rng.choice((0.0, 0.1, 20.0))
        match self.rng.randrange(12):
            case 0 | 1:
                if one in self.leading and replica.image is not None:
                    self.numbers += 1
                    replica.volatile.append((replica.image.leader_epoch, self.numbers))
            case 2 | 3:
                if replica.up:
                    replica.durable, replica.volatile = replica.log, []
                    self.advance(one)
            case 4 | 5 | 6:
                self.fetch(one)
            case 7:
                if self.fetches:
                    self.deliver_fetch(*self.fetches.pop(self.rng.randrange(len(self.fetches))))
            case 8:
                if self.images:
                    self.become(*self.images.pop(self.rng.randrange(min(3, len(self.images)))))
            case 9:
                if self.proposals:
                    at = self.rng.randrange(len(self.proposals))
                    again = self.rng.random() < 0.2  # a duplicate stays under way
                    self.alter_partition(*(self.proposals[at] if again else self.proposals.pop(at)))
            case 10:
                if one in self.leading:
                    end, own = len(replica.log), replica.broker_epoch
                    proposal = self.leading[one][0].propose_shrink(end, self.now, LAG, own)
                    if proposal is not None:
                        self.proposals.append((one, proposal))
            case _:
                if self.rng.random() < 0.3:
                    self.crash(one) if replica.up else self.restart(one)
        self.check()

    def check(self) -> None:
        for one in self.controller.isr:
            held = self.replicas[one].durable[: len(self.committed)]
            assert held == self.committed, f"replica {one} of the ISR lacks committed records"


@pytest.mark.parametrize("seed", range(60))
def test_committed_records_are_durable_on_every_replica_of_the_isr(seed: int) -> None:
    cluster = Cluster(seed)
    for _ in range(1500):
        cluster.step()


def test_the_model_does_what_it_should_check() -> None:
    clusters = [Cluster(seed) for seed in range(20)]
    for cluster in clusters:
        for _ in range(1500):
            cluster.step()
    assert sum(cluster.joined for cluster in clusters) > 20
    assert sum(cluster.acknowledged for cluster in clusters) > 200
    assert sum(cluster.controller.leader_epoch for cluster in clusters) > 50


def test_a_follower_that_was_caught_up_before_the_last_append_is_not_proposed_without_a_fetch() -> None:
    """It had everything when it was alive. Since then records were appended, which another follower lacks, too."""
    leader = Leader()
    leader.append(5)
    leader.fetch(2, 5)
    leader.fetch(3, 5)
    leader.append(8)
    leader.state.update(image((1, 3), partition_epoch=8), leader.now)

    assert leader.state.caught_up_outside(leader.end) == []
    leader.fetch(2, 8)
    assert leader.state.caught_up_outside(leader.end) == [2]


def test_a_follower_whose_directory_failed_is_not_proposed() -> None:
    """Its broker is active, and its last fetch had all records; they were lost with the directory."""
    leader = Leader(isr=(1, 3))
    works, failed = uuid.UUID(int=10), uuid.UUID(int=11)
    partition = image((1, 3), partition_epoch=8)
    directories = (works, failed, works)
    leader.state.update(msgspec.structs.replace(partition, directories=directories), leader.now)
    leader.fetch(2, 0)
    leader.brokers[2] = broker(2, 20, log_dirs=(works,))
    assert leader.expand(2) is None
    leader.brokers[2] = broker(2, 20, log_dirs=(works, failed))
    assert leader.expand(2) is not None
