"""Which brokers are watched, and what is reported."""

from __future__ import annotations

from collections.abc import Callable

from ottla.controller.brokers.liveness import Liveness
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import BrokerEndpoint, RegisterBrokerRecord, UnregisterBrokerRecord
from tests.support.metadata import replayed


def registration(broker_id: int, epoch: int = 1, port: int = 9092) -> RegisterBrokerRecord:
    endpoints = [
        BrokerEndpoint(name="CLIENTS", host="c", port=1),
        BrokerEndpoint(name="BROKERS", host="b", port=port),
    ]
    return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch, end_points=endpoints)


class Watch:
    def __init__(self) -> None:
        self.calls: list[object] = []

    def watch(self, broker_id: int, host: str, port: int, protocol: int) -> None:
        self.calls.append((broker_id, host, port))

    def unwatch(self, broker_id: int) -> None:
        self.calls.append(broker_id)


class Bench:
    def __init__(self) -> None:
        self.lost: list[list[int]] = []
        self.deferred: list[Callable[[], None]] = []
        self.watch = Watch()
        self.liveness = Liveness(1, "BROKERS", self.lost.append, self.deferred.append)
        self.liveness.attach(self.watch)
        self.image = replayed(registration(each) for each in (1, 2, 3))

    def change(self, *records: object) -> MetadataImage:
        self.image = replayed(records, self.image)  # type: ignore[arg-type]
        return self.image

    def run(self) -> None:
        deferred, self.deferred[:] = list(self.deferred), []
        for callback in deferred:
            callback()


def test_active_controller_watches_every_other_broker_at_once() -> None:
    bench = Bench()
    bench.liveness.activate(bench.image)
    assert bench.watch.calls == [(2, "b", 9092), (3, "b", 9092)]
    bench.liveness.deactivate()
    assert bench.watch.calls[2:] == [2, 3]
    bench.liveness.broker_lost(2)
    bench.run()
    assert bench.lost == []


def test_a_watch_that_is_attached_later_starts_then() -> None:
    bench = Bench()
    late = Liveness(1, "BROKERS", bench.lost.append, bench.deferred.append)
    late.activate(bench.image)
    late.attach(bench.watch)
    assert bench.watch.calls == [(2, "b", 9092), (3, "b", 9092)]


def test_a_watch_that_is_attached_after_the_leadership_watches_nothing() -> None:
    bench = Bench()
    bench.liveness.activate(bench.image)
    bench.liveness.deactivate()
    late = Watch()
    bench.liveness.attach(late)
    assert late.calls == []


def test_evidence_of_an_earlier_leadership_is_dropped() -> None:
    bench = Bench()
    bench.liveness.activate(bench.image)
    bench.liveness.broker_lost(2)
    bench.liveness.deactivate()
    bench.liveness.activate(bench.image)
    bench.run()
    assert bench.lost == []


def test_registrations_are_followed() -> None:
    bench = Bench()
    bench.liveness.activate(bench.image)
    bench.watch.calls.clear()
    bench.liveness.follow([2], bench.change(registration(2)))
    assert bench.watch.calls == [], "nothing has changed"
    bench.liveness.follow([2], bench.change(registration(2, epoch=8)))
    bench.liveness.follow([3], bench.change(registration(3, port=7)))
    bench.liveness.follow([3], bench.change(UnregisterBrokerRecord(broker_id=3, broker_epoch=1)))
    assert bench.watch.calls == [(2, "b", 9092), (3, "b", 7), 3]


def test_brokers_lost_at_one_moment_are_reported_together() -> None:
    bench = Bench()
    bench.liveness.activate(bench.image)
    bench.liveness.broker_lost(2)
    bench.liveness.broker_lost(3)
    bench.liveness.broker_lost(9)
    assert bench.lost == []
    bench.run()
    assert bench.lost == [[2, 3]]


def test_evidence_about_an_earlier_process_is_dropped() -> None:
    bench = Bench()
    bench.liveness.activate(bench.image)
    bench.liveness.broker_lost(2)
    bench.liveness.follow([2], bench.change(registration(2, epoch=8)))
    bench.run()
    assert bench.lost == []
