"""The file system calls of a real broker: everything that is acknowledged or relied on is synced, in the right order.

The crash tests run on the simulated disk and prove that the order of changes is right. This suite observes the calls
that reach the operating system (`tests.support.fault_shim.c`), for the compiled and for the reference writer, and
checks `REQUIRED`, the table of paths to the disk.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tests.support import asking
from tests.support.disk_calls import MARK, Durability, Trace, missing
from tests.support.faults import DiskFaults, needs_compiler
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until

pytestmark = needs_compiler

NONE = ErrorCode.NONE
META = "__cluster_metadata-0"
FIRST = f"{0:020d}"
MIB = 1 << 20
SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "100",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
}
KEEP = {"retention.ms": "-1", "file.delete.delay.ms": "0"}


def replaced(path: str) -> tuple[str, ...]:
    """A file that is replaced as a whole: new content, synced under another name, renamed, the name synced."""
    directory = path.rpartition("/")[0] or "."
    return (
        f"create {path}.tmp | truncate {path}.tmp",
        f"write {path}.tmp",
        f"sync {path}.tmp",
        f"rename {path}.tmp {path}",
        f"sync {directory}",
    )


APPENDED = "write+sync {}/*.log"

# One row per path to the disk: the step of the scenario, and the calls that it must make, in this order. Other calls
# may lie between. A step ends when the client has the response, or when the broker has exited.
REQUIRED: dict[str, tuple[str, tuple[str, ...]]] = {
    "identity of a log directory": ("start", replaced("meta.properties")),
    "election state": ("start", replaced(f"{META}/quorum-state")),
    "election state before the first append": (
        "start",
        (f"rename {META}/quorum-state.tmp {META}/quorum-state", f"sync {META}", APPENDED.format(META)),
    ),
    "directory of the metadata log": ("start", (f"mkdir {META}", "sync .", APPENDED.format(META))),
    "metadata record": ("create a topic", (APPENDED.format(META),)),
    "metadata snapshot": ("create many topics", replaced(f"{META}/*-*.checkpoint")),
    "first records of a partition": (
        "first produce",
        (
            "sync plain-0/partition.metadata",
            "sync plain-0",
            "sync .",
            f"write+sync plain-0/{FIRST}.log",
        ),
    ),
    "small produce": ("small produce", (f"write+sync plain-0/{FIRST}.log",)),
    "large produce": ("large produce", (f"write+sync plain-0/{FIRST}.log",)),
    "pipelined produce": ("pipelined produce", (f"write+sync plain-0/{FIRST}.log",)),
    "new segment": (
        "roll",
        ("create plain-0/*[1-9].log", "sync plain-0", "write+sync plain-0/*[1-9].log"),
    ),
    "producer snapshot of a sealed segment": (
        "roll",
        ("create plain-0/*.snapshot", "write plain-0/*.snapshot"),
    ),
    "indexes of a sealed segment before the recovery point": (
        "roll and checkpoint",
        (
            f"write indexed-0/{FIRST}.timeindex",
            f"sync indexed-0/{FIRST}.timeindex",
            f"write indexed-0/{FIRST}.index",
            f"sync indexed-0/{FIRST}.index",
            *replaced("recovery-point-offset-checkpoint"),
        ),
    ),
    "leader epochs before the recovery point": (
        "roll and checkpoint",
        (*replaced("indexed-0/leader-epoch-checkpoint"), *replaced("recovery-point-offset-checkpoint")),
    ),
    "recovery points before high watermarks": (
        "roll and checkpoint",
        (*replaced("recovery-point-offset-checkpoint"), *replaced("replication-offset-checkpoint")),
    ),
    "log start offsets": ("delete records", replaced("log-start-offset-checkpoint")),
    "flush.messages=3": (
        "flush.messages, third record",
        ("sync third-0", "sync third-0/*.log | write+sync third-0/*.log"),
    ),
    "flush.ms": ("flush.ms", ("write timed-0/*.log", "sync timed-0/*.log")),
    "sealed segment that no write synced": ("sealed segment", (f"sync unsynced-0/{FIRST}.log",)),
    "retention": (
        "retention",
        (
            "sync old-0/*[1-9].snapshot",
            f"rename old-0/{FIRST}.log old-0/{FIRST}.log.deleted",
            "sync old-0",
            f"remove old-0/{FIRST}.log.deleted",
        ),
    ),
    "compaction": (
        "compaction",
        (
            f"create compacted-0/{FIRST}.log.cleaned",
            f"write compacted-0/{FIRST}.log.cleaned",
            f"sync compacted-0/{FIRST}.log.cleaned",
            f"rename compacted-0/{FIRST}.log.cleaned compacted-0/{FIRST}.log.swap",
            "sync compacted-0",
            f"rename compacted-0/{FIRST}.log compacted-0/{FIRST}.log.deleted",
            "sync compacted-0",
            f"rename compacted-0/{FIRST}.log.swap compacted-0/{FIRST}.log",
            "sync compacted-0",
            f"remove compacted-0/{FIRST}.log.deleted",
        ),
    ),
    "cleaner checkpoint": ("compaction", replaced("cleaner-offset-checkpoint")),
    "deletion of a topic": (
        "delete a topic",
        (APPENDED.format(META), "rename small-0 small-0.*-delete", "sync .", "remove small-0.*-delete"),
    ),
    "clean stop": (
        "stop",
        (
            "sync plain-0/*.timeindex",
            "sync plain-0/*.index",
            "write plain-0/*.snapshot",
            "sync plain-0/*.snapshot",
            *replaced("recovery-point-offset-checkpoint"),
            *replaced(".kafka_cleanshutdown"),
        ),
    ),
    "start after a clean stop": (
        "start again",
        ("remove .kafka_cleanshutdown", "sync .", APPENDED.format("plain-0")),
    ),
    "a torn tail is cut durably before anything is appended": (
        "recover",
        ("sync-all .", "truncate plain-0/*.log", "sync plain-0/*.log", APPENDED.format("plain-0")),
    ),
}

# What a power failure must not take after a step: the log files whose records were acknowledged.
DURABLE_AFTER: dict[str, tuple[str, ...]] = {
    "create a topic": (f"{META}/*.log",),
    "create many topics": (f"{META}/*.log",),
    "first produce": ("plain-0/*.log",),
    "small produce": ("plain-0/*.log",),
    "large produce": ("plain-0/*.log",),
    "pipelined produce": ("plain-0/*.log",),
    "roll": ("plain-0/*.log",),
    "flush.messages, third record": ("third-0/*.log",),
    "flush.ms": ("timed-0/*.log",),
    "sealed segment": (f"unsynced-0/{FIRST}.log",),
    "compaction": ("compacted-0/*.log",),
    "delete a topic": ("small-0",),
    "stop": ("plain-0/*.log", "plain-0/*index", "indexed-0/*index", "unsynced-0/*.log", f"{META}/*.log"),
    "recover": ("plain-0/*.log",),
}


class Scenario:
    """One broker through all steps, recorded."""

    def __init__(self, workshop: Path, pure: str) -> None:
        data = workshop / "data"
        faults = DiskFaults(workshop, data)
        self.trace = Trace(faults.trace)
        self._environment = {**faults.environment, "OTTLA_PURE": pure}
        self.broker = BrokerProcess(data, SETTINGS)

    def run(self) -> Trace:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self._environment.items():
                patch.setenv(name, value)
            try:
                self._live()
            finally:
                self.broker.kill()
        return self.trace

    def _live(self) -> None:
        self._begin("start")
        self.broker.start()
        self._end("start")
        with RawClient(Address.parse(self.broker.bootstrap)) as client:
            self._produce(client)
            self._flush(client)
            self._shorten(client)
        self._begin("stop")
        assert self.broker.stop() == 0
        self._end("stop")
        self._begin("start again")
        self.broker.start()
        with RawClient(Address.parse(self.broker.bootstrap)) as client:
            assert asking.produce(client, "plain").error == NONE
        self._end("start again")
        self.broker.kill()
        active = max((self.broker.data / "plain-0").glob("*.log"))
        with active.open("ab") as file:
            file.write(b"torn")
        self._begin("recover")
        self.broker.start()
        with RawClient(Address.parse(self.broker.bootstrap)) as client:
            assert asking.produce(client, "plain").error == NONE
        self._end("recover")

    def _produce(self, client: RawClient) -> None:
        self._begin("create a topic")
        assert asking.create(client, "plain", 1, KEEP | {"segment.bytes": str(MIB)}) == NONE
        self._end("create a topic")
        self._begin("create many topics")
        for name in ("small", "more", "still-more"):
            assert asking.create(client, name, 3, KEEP) == NONE
        wait_until(lambda: self._has(*REQUIRED["metadata snapshot"][1]), "a metadata snapshot")
        self._end("create many topics")
        for name, value in (
            ("first produce", b"1"),
            ("small produce", b"2"),
            ("large produce", bytes(200_000)),
        ):
            self._begin(name)
            assert asking.produce(client, "plain", 0, [value]).error == NONE
            self._end(name)
        self._begin("pipelined produce")
        frames = [asking.produce_frame("plain", 0, [b"%d" % number]) for number in range(40)]
        client.send(b"".join(frames))
        for _ in frames:
            assert not isinstance(client.read_frame(), Closed)
        self._end("pipelined produce")
        self._begin("roll")
        for _ in range(2):
            assert asking.produce(client, "plain", 0, [bytes(700_000)]).error == NONE
        self._end("roll")
        self._begin("roll and checkpoint")
        assert asking.create(client, "indexed", 1, KEEP | {"segment.bytes": str(MIB)}) == NONE
        for _ in range(30):
            assert asking.produce(client, "indexed", 0, [bytes(50_000)]).error == NONE
        for row in REQUIRED.values():
            if row[0] == "roll and checkpoint":
                wait_until(lambda row=row: self._has(*row[1]), f"{row[1][-2]}")
        self._end("roll and checkpoint")

    def _flush(self, client: RawClient) -> None:
        assert asking.create(client, "third", 1, KEEP | {"flush.messages": "3"}) == NONE
        for _ in range(2):
            assert asking.produce(client, "third").error == NONE
        self._begin("flush.messages, third record")
        assert asking.produce(client, "third").error == NONE
        self._end("flush.messages, third record")
        assert (
            asking.create(client, "timed", 1, KEEP | {"flush.messages": "1000000", "flush.ms": "50"}) == NONE
        )
        self._begin("flush.ms")
        assert asking.produce(client, "timed").error == NONE
        wait_until(lambda: self._has(*REQUIRED["flush.ms"][1]), "flush.ms")
        self._end("flush.ms")
        unsynced = {"flush.messages": "1000000", "segment.bytes": str(MIB)}
        assert asking.create(client, "unsynced", 1, KEEP | unsynced) == NONE
        self._begin("sealed segment")
        for _ in range(2):
            assert asking.produce(client, "unsynced", 0, [bytes(700_000)]).error == NONE
        wait_until(
            lambda: self._has(*REQUIRED["sealed segment that no write synced"][1]),
            "a sync of the sealed segment",
        )
        self._end("sealed segment")

    def _shorten(self, client: RawClient) -> None:
        self._begin("delete records")
        deletion = DeleteRecordsPartition(partition_index=0, offset=2)
        deleted = client.ask(
            DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name="plain", partitions=[deletion])], timeout_ms=10_000
            ),
            2,
            DeleteRecordsResponse,
        )
        assert not isinstance(deleted, Closed)
        wait_until(lambda: self._has(*REQUIRED["log start offsets"][1]), "a checkpoint of log starts")
        self._end("delete records")
        small = {"segment.bytes": str(MIB), "file.delete.delay.ms": "0"}
        self._begin("retention")
        assert (
            asking.create(client, "old", 1, small | {"retention.ms": "-1", "retention.bytes": "800000"})
            == NONE
        )
        for _ in range(3):
            assert asking.produce(client, "old", 0, [bytes(700_000)]).error == NONE
        wait_until(lambda: self._has(*REQUIRED["retention"][1]), "retention")
        self._end("retention")
        self._begin("compaction")
        compacted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0"}
        assert asking.create(client, "compacted", 1, small | compacted) == NONE
        for _ in range(3):
            assert _produce_keyed(client, "compacted", bytes(700_000)) == NONE
        for row in ("compaction", "cleaner checkpoint"):
            wait_until(lambda row=row: self._has(*REQUIRED[row][1]), row)
        self._end("compaction")
        self._begin("delete a topic")
        request = DeleteTopicsRequest(topic_names=["small"], timeout_ms=10_000)
        gone = client.ask(request, 5, DeleteTopicsResponse)
        assert not isinstance(gone, Closed)
        assert gone.responses[0].error_code == NONE
        wait_until(lambda: self._has(*REQUIRED["deletion of a topic"][1]), "the removal of the topic's files")
        self._end("delete a topic")

    def _begin(self, step: str) -> None:
        self._step = step
        self.trace.mark(f"begin {step}")

    def _end(self, step: str) -> None:
        self.trace.mark(f"end {step}")

    def _has(self, *required: str) -> bool:
        return self.trace.has(*required, since=f"begin {self._step}")


def _produce_keyed(client: RawClient, topic: str, value: bytes) -> ErrorCode:
    batch = build_batch([NewRecord(b"key", value, (), asking.NOW_MS)])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    response = client.ask(
        ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), asking.PRODUCE_VERSION, ProduceResponse
    )
    assert not isinstance(response, Closed)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


@pytest.fixture(scope="module", params=["0", "1"], ids=["compiled", "reference"])
def trace(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return Scenario(tmp_path_factory.mktemp("calls"), request.param).run()


def test_every_path_makes_its_calls_in_order(trace: Trace) -> None:
    wrong = {
        name: (absent, [str(call) for call in trace.between(f"begin {step}", f"end {step}")])
        for name, (step, required) in REQUIRED.items()
        if (absent := missing(trace.between(f"begin {step}", f"end {step}"), required)) is not None
    }
    assert wrong == {}


def test_what_was_acknowledged_survives_a_power_failure(trace: Trace) -> None:
    durability = Durability()
    checked = set()
    for call in trace.calls():
        durability.replay(call)
        if call.kind == MARK and call.path.startswith("end "):
            step = call.path.removeprefix("end ")
            if step in DURABLE_AFTER:
                lost = {each for pattern in DURABLE_AFTER[step] for each in durability.lost(pattern)}
                assert lost == set(), step
                checked.add(step)
    assert checked == set(DURABLE_AFTER)


def test_no_file_is_renamed_with_unsynced_content(trace: Trace) -> None:
    durability = Durability()
    renamed = 0
    for call in trace.calls():
        if call.kind == "rename" and not call.target.endswith((".deleted", "-delete")):
            assert call.path not in durability.contents, call
            renamed += 1
        durability.replay(call)
    assert renamed > 20
