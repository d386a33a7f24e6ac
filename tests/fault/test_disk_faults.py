"""Disks that fail under a running broker, and directories that are damaged when it starts.

A failed directory answers KAFKA_STORAGE_ERROR, the others go on, the metadata say so, and after a repair
everything that was acknowledged is there. A damaged directory is opened with all its good data, or refused in
plain words.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerProcess
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.conftest import MakeBroker
from tests.support import asking
from tests.support.faults import DiskFaults, compiler
from tests.support.raw import Address, Closed, RawClient
from tests.support.waiting import wait_until

TOPIC = "t"
PARTITIONS = 4
NONE, STORAGE = ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler for the library")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")


def connect(broker: BrokerProcess) -> RawClient:
    return RawClient(Address.parse(broker.bootstrap))


def errors(client: RawClient, partitions: list[int]) -> set[ErrorCode]:
    return {asking.produce(client, TOPIC, one, [b"later"]).error for one in partitions}


def clean(broker: BrokerProcess) -> None:
    """Check that the broker logged no traceback."""
    assert "Traceback" not in broker.output()


class TwoDirectories:
    """A broker with two log directories, one of which is about to fail."""

    def __init__(self, make_broker: MakeBroker, second: Path) -> None:
        self.broker = make_broker({"log.dirs": f"{second.parent / 'data'},{second}"})
        with connect(self.broker) as client:
            assert asking.create(client, TOPIC, PARTITIONS) == NONE
            for number in range(3):
                for partition in range(PARTITIONS):
                    assert asking.produce(client, TOPIC, partition, [b"%d" % number]).error == NONE
        held = {one for one in range(PARTITIONS) if (second / f"{TOPIC}-{one}").exists()}
        self.failing = sorted(held)
        self.sound = sorted(set(range(PARTITIONS)) - held)
        assert self.failing
        assert self.sound

    def check_offline(self, new_topic: str = "later") -> None:
        with connect(self.broker) as client:
            assert errors(client, self.failing) == {STORAGE}
            assert errors(client, self.sound) == {NONE}
            assert asking.fetch(client, TOPIC, self.failing[0]).error == STORAGE
            assert asking.fetch(client, TOPIC, self.sound[0]).values[:3] == [b"0", b"1", b"2"]

            def leaders() -> dict[int, tuple[int, list[int]]]:
                found = asking.topics(client)[TOPIC].partitions
                return {one.partition_index: (one.leader_id, list(one.offline_replicas)) for one in found}

            wait_until(lambda: leaders()[self.failing[0]] == (-1, [1]), "metadata without the failed replica")
            assert leaders()[self.sound[0]] == (1, [])
            dirs = client.ask(DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse)
            assert not isinstance(dirs, Closed)
            assert sorted(one.error_code for one in dirs.results) == [NONE, STORAGE]
            assert asking.create(client, new_topic, 2) == NONE
            assert asking.produce(client, new_topic, 1).error == NONE
        assert "log directory is offline" in self.broker.output()
        clean(self.broker)

    def check_recovered(self) -> None:
        with connect(self.broker) as client:
            for partition in range(PARTITIONS):
                assert asking.fetch(client, TOPIC, partition).values[:3] == [b"0", b"1", b"2"]
            assert errors(client, [*self.failing, *self.sound]) == {NONE}
        clean(self.broker)


@needs_compiler
@pytest.mark.parametrize("pure", ["0", "1"], ids=["compiled", "pure"])
@pytest.mark.parametrize("kind", ["writes", "reads"])
def test_a_directory_that_fails_goes_offline_alone(
    kind: str, pure: str, make_broker: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = DiskFaults(tmp_path, tmp_path / "second")
    with monkeypatch.context() as patch:
        faults.install(patch)
        patch.setenv("OTTLA_PURE", pure)
        setup = TwoDirectories(make_broker, tmp_path / "second")
    faults.refuse(kind, times=1)
    with connect(setup.broker) as client:
        if kind == "reads":
            assert asking.fetch(client, TOPIC, setup.failing[0]).error == STORAGE
        else:
            assert asking.produce(client, TOPIC, setup.failing[0]).error == STORAGE
    assert faults.refused >= 1
    setup.check_offline()
    refused = faults.refused
    faults.heal()
    # What has failed is never tried again: only a new start brings the directory back.
    setup.check_offline("much-later")
    assert refused < 5
    assert setup.broker.stop() == 0
    setup.broker.start()
    setup.check_recovered()


@needs_compiler
def test_a_missing_directory_is_missed_and_not_begun_anew(make_broker: MakeBroker, tmp_path: Path) -> None:
    second = tmp_path / "second"
    setup = TwoDirectories(make_broker, second)
    assert setup.broker.stop() == 0
    second.rename(tmp_path / "unmounted")
    second.write_text("a file where the directory should be")
    setup.broker.start()
    with connect(setup.broker) as client:
        assert errors(client, setup.failing) == {STORAGE}
        assert errors(client, setup.sound) == {NONE}
    assert not list((tmp_path / "data").glob(f"{TOPIC}-{setup.failing[0]}"))
    assert setup.broker.stop() == 0
    second.unlink()
    (tmp_path / "unmounted").rename(second)
    setup.broker.start()
    setup.check_recovered()


@needs_compiler
def test_without_its_metadata_log_a_broker_serves_but_changes_nothing(
    make_broker: MakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = DiskFaults(tmp_path, tmp_path / "data" / "__cluster_metadata-0")
    with monkeypatch.context() as patch:
        faults.install(patch)
        broker = make_broker()
    with connect(broker) as client:
        assert asking.create(client, TOPIC) == NONE
        assert asking.produce(client, TOPIC, 0, [b"kept"]).error == NONE
        faults.refuse("writes", errno.EIO)
        assert asking.create(client, "never") == STORAGE
        assert asking.create(client, "never") == STORAGE
        assert asking.fetch(client, TOPIC).values == [b"kept"]
    assert "the metadata log has failed" in broker.output()
    clean(broker)
    faults.heal()
    broker.stop()
    broker.start()
    with connect(broker) as client:
        assert set(asking.topics(client)) == {TOPIC}
        assert asking.fetch(client, TOPIC).values == [b"kept"]
        assert asking.create(client, "now") == NONE


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "second"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mounting is not allowed here: {mounted.stderr.decode()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


@needs_root
def test_a_full_disk(small_disk: Path, make_broker: MakeBroker) -> None:
    setup = TwoDirectories(make_broker, small_disk)
    failing = setup.failing[0]
    acknowledged = []
    with connect(setup.broker) as client:
        for number in range(200):
            answer = asking.produce(client, TOPIC, failing, [b"%d" % number + bytes(100_000)])
            if answer.error != NONE:
                break
            acknowledged.append((answer.offset, number))
        else:
            pytest.fail("the disk never got full")
    assert answer.error == STORAGE
    assert acknowledged
    setup.check_offline()
    assert setup.broker.stop() == 0
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    setup.broker.start()
    setup.check_recovered()
    with connect(setup.broker) as client:
        for offset, number in acknowledged:
            assert asking.fetch(client, TOPIC, failing, offset).values[0].rstrip(b"\0") == b"%d" % number


@needs_root
def test_a_broker_continues_when_its_full_disk_has_space_again(
    small_disk: Path, make_broker: MakeBroker
) -> None:
    """Without other brokers, and without a restart of the process."""
    broker = make_broker({"log.dirs": str(small_disk), "log.index.size.max.bytes": "10000"})
    pid, acknowledged = broker.pid, []
    with connect(broker) as client:
        assert asking.create(client, TOPIC) == NONE
        for number in range(200):
            answer = asking.produce(client, TOPIC, 0, [b"%d" % number + bytes(100_000)])
            if answer.error != NONE:
                break
            acknowledged.append((answer.offset, number))
        assert (answer.error, len(acknowledged) > 5) == (STORAGE, True)
        assert asking.produce(client, TOPIC).error == STORAGE
    wait_until(lambda: "starts again by itself when there is space" in broker.output(), "the advice")
    assert "No space left on device" in broker.output()
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    wait_until(lambda: broker.output().count("ready ") == 2, "the broker to be ready again")
    with connect(broker) as client:
        for offset, number in acknowledged:
            assert asking.fetch(client, TOPIC, 0, offset).values[0].rstrip(b"\0") == b"%d" % number
        assert asking.produce(client, TOPIC, 0, [b"again"]).error == NONE
        assert asking.create(client, "another") == NONE
    assert broker.pid == pid
    assert broker.running
    clean(broker)
    assert broker.stop() == 0


def test_a_file_that_may_not_grow(make_broker: MakeBroker, tmp_path: Path) -> None:
    """EFBIG half-way through a write: what was acknowledged before survives."""
    broker = make_broker()
    with connect(broker) as client:
        assert asking.create(client, TOPIC) == NONE
        assert asking.produce(client, TOPIC, 0, [b"kept"]).error == NONE
        # The signal that comes with this limit is ignored by Python from its start.
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
        assert asking.produce(client, TOPIC, 0, [bytes(900_000)]).error == NONE
        assert asking.produce(client, TOPIC, 0, [bytes(900_000)]).error == STORAGE
        assert asking.produce(client, TOPIC, 0).error == STORAGE
        assert asking.fetch(client, TOPIC).error == STORAGE
    assert "log directory is offline" in broker.output()
    clean(broker)
    broker.stop()
    broker.start()
    with connect(broker) as client:
        assert asking.fetch(client, TOPIC).values[0] == b"kept"
        assert asking.fetch(client, TOPIC).high_watermark == 2
        assert asking.produce(client, TOPIC, 0, [b"again"]).offset == 2


def test_no_descriptors_left(make_broker: MakeBroker) -> None:
    """New connections wait until there are some again; the others notice nothing."""
    broker = make_broker()
    with connect(broker) as client:
        assert asking.create(client, TOPIC) == NONE
        assert asking.produce(client, TOPIC).error == NONE
        used = len(list(Path(f"/proc/{broker.pid}/fd").iterdir()))
        before = resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (used, before[1]))
        waiting = [connect(broker) for _ in range(5)]
        assert asking.produce(client, TOPIC).error == NONE
        wait_until(lambda: "cannot accept" in broker.output(), "a connection that cannot be accepted")
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, before)
        assert all(asking.ping(one) for one in waiting)
        for one in waiting:
            one.__exit__()
    clean(broker)


# Damage that a broker finds at its start.

RECORDS = 60
SEGMENT_BYTES = 1 << 20


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a broker that was killed with several segments on the disk."""
    data = tmp_path_factory.mktemp("pristine") / "data"
    broker = BrokerProcess(data).start()
    with connect(broker) as client:
        assert asking.create(client, TOPIC, 1, {"segment.bytes": str(SEGMENT_BYTES)}) == NONE
        for number in range(RECORDS):
            value = b"%d" % number + bytes(50_000)
            assert asking.produce(client, TOPIC, 0, [value]).offset == number
    broker.kill()
    return data


def log_files(data: Path) -> list[Path]:
    return sorted((data / f"{TOPIC}-0").glob("*.log"))


def each(pattern: str, content: bytes | None) -> Callable[[Path], None]:
    def damage(data: Path) -> None:
        found = [path for path in data.glob(pattern) if path.is_file()]
        assert found, pattern
        for path in found:
            if content is None:
                path.unlink()
            else:
                path.write_bytes(content)

    return damage


def indexes(content: bytes | None) -> Callable[[Path], None]:
    """The index files of all segments, which a broker that was killed may not have written yet."""

    def damage(data: Path) -> None:
        segments = list(data.glob(f"{TOPIC}-0/*.log"))
        assert segments
        for segment in segments:
            for suffix in (".index", ".timeindex"):
                if content is None:
                    segment.with_suffix(suffix).unlink(missing_ok=True)
                else:
                    segment.with_suffix(suffix).write_bytes(content)

    return damage


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def litter(data: Path) -> None:
    """Files and directories that are not ours, some with names that nearly are."""
    for name in ("lost+found", "notes", "-0", f"{TOPIC}-99999999999", f"{TOPIC}-0/below"):
        (data / name).mkdir()
    for name in (
        "file-1",
        f"{TOPIC}-0/garbage.bin",
        f"{TOPIC}-0/0.log",
        f"{TOPIC}-0/{'9' * 20}.log",
        f"{TOPIC}-0/00000000000000000000.logs",
    ):
        (data / name).write_bytes(b"\xff" * 100)


HARMLESS: dict[str, Callable[[Path], None]] = {
    "indexes missing": indexes(None),
    "indexes empty": indexes(b""),
    "indexes of garbage": indexes(os.urandom(120)),
    "snapshots of garbage": each(f"{TOPIC}-0/*.snapshot", b"\x00\x01\xff\xff"),
    "leader epochs of garbage": lambda data: write(data / f"{TOPIC}-0/leader-epoch-checkpoint", b"\xff\xfe"),
    "checkpoints cut short": each("*-checkpoint", b"0\n1\n"),
    "checkpoints of garbage": each("*-checkpoint", b"\x00\xff rubbish"),
    "partition.metadata of garbage": each(f"{TOPIC}-0/partition.metadata", b"\xff"),
    "things that are not ours": litter,
}


@pytest.mark.parametrize("damage", HARMLESS.values(), ids=HARMLESS)
def test_damage_that_costs_no_record(damage: Callable[[Path], None], pristine: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(pristine, data)
    for name in ("recovery-point", "log-start", "replication"):
        (data / f"{name}-offset-checkpoint").touch()
    damage(data)
    with BrokerProcess(data) as broker:
        with connect(broker) as client:
            for number in range(RECORDS):
                assert asking.fetch(client, TOPIC, 0, number).values[0].rstrip(b"\0") == b"%d" % number
            assert asking.produce(client, TOPIC, 0).offset == RECORDS
        clean(broker)


REFUSED: dict[str, tuple[Callable[[Path], None], str]] = {
    "meta.properties of garbage": (each("meta.properties", b"\xff\xfe"), "meta.properties"),
    "meta.properties empty": (each("meta.properties", b""), "meta.properties"),
    "a flipped bit within the metadata log": (
        lambda data: flip(data / "__cluster_metadata-0/00000000000000000000.log", 400),
        "sound records follow",
    ),
    "quorum-state of garbage": (each("__cluster_metadata-0/quorum-state", b'{"x'), "quorum-state"),
}


@pytest.mark.parametrize(("damage", "named"), REFUSED.values(), ids=REFUSED)
def test_refused_damage_is_reported(
    damage: Callable[[Path], None], named: str, pristine: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(pristine, data)
    damage(data)
    before = [path.read_bytes() for path in log_files(data)]
    command = BrokerProcess(data).command()
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert named in ended.stderr
    assert [path.read_bytes() for path in log_files(data)] == before


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def test_a_flipped_bit_after_a_clean_stop_costs_nothing_else(pristine: Path, tmp_path: Path) -> None:
    """Flushed records are not checked again: clients detect the wrong CRC of the one batch."""
    data = tmp_path / "data"
    shutil.copytree(pristine, data)
    BrokerProcess(data).start().stop()
    flip(log_files(data)[0], 120_000)
    with BrokerProcess(data) as broker, connect(broker) as client:
        last = asking.fetch(client, TOPIC, 0, RECORDS - 1)
        assert last.high_watermark == RECORDS
        assert last.values[0].rstrip(b"\0") == b"%d" % (RECORDS - 1)


def test_records_cut_off_by_recovery_are_logged(pristine: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(pristine, data)
    flip(log_files(data)[1], 120_000)
    sizes = sum(path.stat().st_size for path in log_files(data))
    with BrokerProcess(data) as broker:
        said = next(line for line in broker.output().splitlines() if "was cut" in line)
        assert f"{TOPIC}-0" in said
        with connect(broker) as client:
            end = asking.fetch(client, TOPIC).high_watermark
            assert 0 < end < RECORDS
            assert asking.fetch(client, TOPIC, 0, end - 1).values[0].rstrip(b"\0") == b"%d" % (end - 1)
    kept = sum(path.stat().st_size for path in (data / f"{TOPIC}-0").iterdir() if ".log" in path.name)
    assert kept >= sizes, "bytes behind the damage were deleted, though batches there are sound"
