"""Reports of log directories to the controller: which replicas are reported, and what happens to the reports."""

from __future__ import annotations

import uuid
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog

from ottla.base.errors import ErrorCode
from ottla.base.promise import Promise
from ottla.metadata.image import MetadataImage
from ottla.node.membership.directories import DirectoryReports, assignment_request
from ottla.peer.errors import PeerError, Reason
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponseDirectoryData as ResponseDirectory,
)
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponsePartitionData as ResponsePartition,
)
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponseTopicData as ResponseTopic,
)
from ottla.wire.schema import Message
from tests.support.metadata import broker_record, replayed, topic_id_of, topic_records
from tests.unit.peer.fakes import FakeTimers

NODE = 1
FIRST, SECOND = uuid.UUID(int=1010), uuid.UUID(int=1011)
"""The directories of the broker; the metadata has all replicas in the first one."""
TOPIC = topic_id_of("t")
Reports = dict[tuple[uuid.UUID, int], uuid.UUID]


class Scenario:
    """A broker with two directories and the three partitions of `t`, whose logs the test places."""

    def __init__(self) -> None:
        self.timers = FakeTimers()
        self.sent: list[tuple[AssignReplicasToDirsRequest, Promise[Any]]] = []
        self.epoch = 5
        self.hosted: dict[int, Any] = {}
        self.image: MetadataImage = replayed(
            [broker_record(NODE, dirs=2), *topic_records("t", [[1], [1], [1]])]
        )
        self.reports = DirectoryReports(
            NODE,
            lambda: self.epoch,
            cast(Any, SimpleNamespace(dir_of=lambda log: SimpleNamespace(directory_id=log))),
            cast(Any, SimpleNamespace(by_id={TOPIC.bytes: self.hosted})),
            cast(Any, self),
            self.timers,
            structlog.get_logger(),
        )

    def request(self, message: Message, response: type[Message], *, timeout_s: float) -> Promise[Any]:
        assert isinstance(message, AssignReplicasToDirsRequest)
        promise: Promise[Any] = Promise()
        self.sent.append((message, promise))
        return promise

    def place(self, index: int, directory_id: uuid.UUID, *, replaces_lost: bool = False) -> None:
        """Serve a partition from a log in this directory."""
        self.hosted[index] = SimpleNamespace(log=directory_id, replaces_lost=replaces_lost)

    def assigned(self) -> None:
        self.reports.assigned(self.image, [TOPIC])

    def take(self) -> tuple[Reports, Promise[Any]]:
        """The only request in flight."""
        assert len(self.sent) == 1
        request, promise = self.sent.pop()
        return reported(request), promise


def reported(request: AssignReplicasToDirsRequest) -> Reports:
    return {
        (topic.topic_id, each.partition_index): directory.id
        for directory in request.directories
        for topic in directory.topics
        for each in topic.partitions
    }


@pytest.fixture
def test() -> Scenario:
    return Scenario()


def test_replicas_whose_directory_differs_from_the_metadata_are_reported(test: Scenario) -> None:
    test.place(0, SECOND)
    test.place(1, FIRST)
    test.place(2, SECOND)
    test.epoch = 7
    test.assigned()
    request, _ = test.sent[0]
    assert (request.broker_id, request.broker_epoch) == (NODE, 7)
    assert reported(request) == {(TOPIC, 0): SECOND, (TOPIC, 2): SECOND}


def test_nothing_is_sent_if_all_directories_are_known(test: Scenario) -> None:
    test.place(0, FIRST)
    test.place(7, SECOND)  # of a later change, which will report it
    test.assigned()
    assert test.sent == []


def test_a_log_that_replaces_a_lost_one_is_reported_when_the_leader_knows_it(test: Scenario) -> None:
    test.place(0, SECOND, replaces_lost=True)
    test.assigned()
    assert test.sent == []
    test.place(0, SECOND)
    test.assigned()
    assert test.take()[0] == {(TOPIC, 0): SECOND}


def test_reports_that_arrive_during_a_request_are_sent_with_the_next_one(test: Scenario) -> None:
    test.place(0, SECOND)
    test.assigned()
    _, promise = test.take()
    test.hosted.clear()
    test.place(1, SECOND)
    test.assigned()
    test.place(2, SECOND)
    test.assigned()
    assert test.sent == []
    promise.keep(AssignReplicasToDirsResponse())
    assert test.take()[0] == {(TOPIC, 1): SECOND, (TOPIC, 2): SECOND}


def test_a_request_without_a_response_is_repeated_after_a_pause(test: Scenario) -> None:
    test.place(0, SECOND)
    test.place(1, SECOND)
    test.assigned()
    first, promise = test.take()
    other = uuid.UUID(int=1012)
    test.hosted.clear()
    test.place(1, other)
    test.assigned()
    promise.fail(PeerError(Reason.TIMED_OUT, "no controller"))
    test.timers.advance(0.4)
    assert test.sent == []
    test.timers.advance(0.2)
    assert test.take()[0] == {**first, (TOPIC, 1): other}, "the newer report counts"


@pytest.mark.parametrize("code", [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR])
def test_a_request_that_is_refused_is_repeated_with_the_current_broker_epoch(
    test: Scenario, code: ErrorCode
) -> None:
    """The broker may have registered again, and the log of the controller may have failed."""
    test.place(0, SECOND)
    test.assigned()
    test.take()[1].keep(AssignReplicasToDirsResponse(error_code=code))
    assert test.sent == []
    test.epoch = 9
    test.timers.advance(0.5)
    assert test.sent[0][0].broker_epoch == 9
    assert test.take()[0] == {(TOPIC, 0): SECOND}


def test_a_report_that_is_refused_for_its_partition_is_not_repeated(test: Scenario) -> None:
    test.place(0, SECOND)
    test.assigned()
    refused = ResponsePartition(partition_index=0, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    directory = ResponseDirectory(id=SECOND, topics=[ResponseTopic(topic_id=TOPIC, partitions=[refused])])
    test.take()[1].keep(AssignReplicasToDirsResponse(directories=[directory]))
    test.timers.advance(60.0)
    assert test.sent == []


def test_nothing_is_sent_after_close(test: Scenario) -> None:
    test.place(0, SECOND)
    test.assigned()
    _, promise = test.take()
    test.reports.close()
    test.place(1, SECOND)
    test.assigned()
    promise.fail(PeerError(Reason.SHUTDOWN, "closed"))
    test.timers.advance(60.0)
    assert test.sent == []
    assert test.timers.pending == 0


def test_a_request_lists_partitions_by_directory_and_topic() -> None:
    other = topic_id_of("u")
    request = assignment_request(
        NODE, 5, {(TOPIC, 0): FIRST, (TOPIC, 1): SECOND, (other, 0): FIRST, (TOPIC, 2): FIRST}
    )
    listed = [
        (
            each.id,
            [(topic.topic_id, [one.partition_index for one in topic.partitions]) for topic in each.topics],
        )
        for each in request.directories
    ]
    assert listed == [(FIRST, [(TOPIC, [0, 2]), (other, [0])]), (SECOND, [(TOPIC, [1])])]
