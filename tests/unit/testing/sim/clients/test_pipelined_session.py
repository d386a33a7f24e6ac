"""A simulated producer with several batches in flight: order, retries, and the error that it must not get."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.replication.partition import Partition
from ottla.testing.sim.clients.admin import Admin
from ottla.testing.sim.clients.client import Client
from ottla.testing.sim.clients.pipelined_session import IN_FLIGHT_MAX, PipelinedSession
from ottla.testing.sim.run import Simulation

TP = TopicPartition("in", 0)


class Producer(Client):
    """Writes 60 batches of two records as fast as it can."""

    retries_singly = False
    done = False
    in_flight_max = 0

    async def run(self) -> None:
        session = PipelinedSession(self, retries_singly=self.retries_singly)
        await session.init()
        for number in range(60):
            await session.produce(TP, [f"source/0/0/{2 * number + each}" for each in range(2)])
            await self.process.sleep(1)
            (queue,) = session._queues.values()
            self.in_flight_max = max(self.in_flight_max, sum(batch.in_flight for batch in queue._batches))
        await session.flush()
        self.done = True


def simulated(retries_singly: bool) -> tuple[Simulation, Producer]:
    simulation = Simulation(seed=1)
    cluster = simulation.add_cluster()
    cluster.topics = {"in": 1}
    producer = Producer(cluster, "source")
    producer.retries_singly = retries_singly
    admin = Admin(cluster, "admin")
    admin.when_ready = producer.start
    cluster.node.start()
    admin.start()
    return simulation, producer


@pytest.mark.parametrize("retries_singly", [False, True])
def test_all_records_are_written_once_and_in_order_although_the_broker_is_killed(
    retries_singly: bool,
) -> None:
    simulation, producer = simulated(retries_singly)
    cluster, kernel = producer.cluster, simulation.kernel
    simulation.run(lambda: len(cluster.txns.visible(TP, 0, 99)) > 20)
    cluster.node.kill()
    cluster.node.start()
    simulation.run(lambda: producer.done or kernel.violation is not None)

    assert kernel.violation is None, str(kernel.violation)
    assert [value for _, value in cluster.txns.visible(TP, 0, 999)] == [f"source/0/0/{n}" for n in range(120)]
    assert 1 < producer.in_flight_max <= IN_FLIGHT_MAX


def test_a_batch_that_is_out_of_order_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker refuses one batch, and does not refuse those behind it for the same reason."""
    simulation, producer = simulated(retries_singly=False)
    original, appends = Partition.append, 0

    def append(self: Partition, *arguments: object, **more: object) -> object:
        nonlocal appends
        appends += 1
        if appends == 20:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return original(self, *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Partition, "append", append)
    simulation.run(lambda: producer.done or simulation.kernel.violation is not None)
    assert "OUT_OF_ORDER_SEQUENCE_NUMBER" in str(simulation.kernel.violation)
