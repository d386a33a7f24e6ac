"""Families about the node: its roles, the quorum, its connections, its process, and the times of requests."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.metrics.text import family, labels, number
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.broker.metrics.request_times import RequestTimes
    from ottla.broker.net.connection import Connection
    from ottla.metadata.image import MetadataImage
    from ottla.replication.partition import Partition

NO_LEADER: Final = -1


class RaftState(NamedTuple):
    """The replica of the metadata log on this node."""

    leader: int
    epoch: int
    state: str
    """leader, follower, observer or unattached, as in Kafka."""
    high_watermark: int
    log_end_offset: int


def replica_families(partitions: list[Partition], offline_directories: int) -> Iterator[str]:
    """Sums over the partitions of this broker."""
    led = [each for each in partitions if each.leads]
    prefix = "kafka_server_replicamanager"
    yield from _gauge(f"{prefix}_leadercount", "Partitions that this broker leads.", len(led))
    yield from _gauge(f"{prefix}_partitioncount", "Replicas on this broker.", len(partitions))
    under = sum(len(each.isr) < len(each.replicas) for each in led)
    yield from _gauge(
        f"{prefix}_underreplicatedpartitions", "Led partitions with a replica out of sync.", under
    )
    minimum = sum(len(each.isr) < each.min_in_sync for each in led)
    text = "Led partitions with fewer in-sync replicas than acks=all requires."
    yield from _gauge(f"{prefix}_underminisrpartitioncount", text, minimum)
    text = "Log directories that have failed."
    yield from _gauge("kafka_log_logmanager_offlinelogdirectorycount", text, offline_directories)


def controller_families(image: MetadataImage, *, active: bool, unclean_elections: int) -> Iterator[str]:
    """The controller on this node. Only the active one counts partitions without a leader."""
    prefix = "kafka_controller_kafkacontroller"
    yield from _gauge(
        f"{prefix}_activecontrollercount", "1 if the controller of this node is active.", active
    )
    offline = 0
    if active:
        offline = sum(
            one.leader == NO_LEADER
            for topic in image.topics.by_id.values()
            for one in topic.partitions.values()
        )
    yield from _gauge(f"{prefix}_offlinepartitionscount", "Partitions without a leader.", offline)
    brokers = image.brokers.values() if active else ()
    text = "Active brokers, as the active controller counts them."
    yield from _gauge(f"{prefix}_activebrokercount", text, sum(not each.fenced for each in brokers))
    text = "Registered brokers that are fenced, as the active controller counts them."
    yield from _gauge(f"{prefix}_fencedbrokercount", text, sum(each.fenced for each in brokers))
    yield from _gauge(f"{prefix}_globaltopiccount", "Topics.", len(image.topics.by_id) if active else 0)
    count = sum(len(topic.partitions) for topic in image.topics.by_id.values()) if active else 0
    yield from _gauge(f"{prefix}_globalpartitioncount", "Partitions.", count)
    yield from family(
        "kafka_controller_controllerstats_uncleanleaderelections_total",
        "counter",
        "Elections of replicas that were not in sync, since this controller started.",
        [("", unclean_elections)],
    )


def raft_families(raft: RaftState) -> Iterator[str]:
    prefix = "kafka_server_raftmetrics"
    yield from _gauge(f"{prefix}_current_leader", "Leader of the metadata log; -1 if unknown.", raft.leader)
    yield from _gauge(f"{prefix}_current_epoch", "Epoch of the quorum.", raft.epoch)
    voted = raft.leader if raft.state == "leader" else NO_LEADER
    yield from _gauge(f"{prefix}_current_vote", "The candidate that this node voted for; -1 if none.", voted)
    text = "1 for the state of this node in the quorum."
    yield from family(f"{prefix}_current_state", "gauge", text, [(labels(current_state=raft.state), 1)])
    yield from _gauge(f"{prefix}_high_watermark", "Committed end of the metadata log.", raft.high_watermark)
    yield from _gauge(f"{prefix}_log_end_offset", "End of the metadata log.", raft.log_end_offset)


class RaftRates:
    """Records per second of the metadata log between two scrapes: appended by the leader, fetched by all others."""

    def __init__(self) -> None:
        self._last: tuple[int, int] | None = None
        self._rate = 0.0

    def families(self, raft: RaftState, now_ns: int) -> Iterator[str]:
        if self._last is not None and now_ns > self._last[0]:
            self._rate = max(0, raft.log_end_offset - self._last[1]) * 1e9 / (now_ns - self._last[0])
        self._last = (now_ns, raft.log_end_offset)
        leads = raft.state == "leader"
        prefix = "kafka_server_raftmetrics"
        text = "Records per second that this node has appended to the metadata log as its leader."
        yield from _gauge(f"{prefix}_append_records_rate", text, self._rate if leads else 0.0)
        text = "Records per second of the metadata log that this node has fetched from the leader."
        yield from _gauge(f"{prefix}_fetch_records_rate", text, 0.0 if leads else self._rate)


def connection_families(connections: Iterable[Connection]) -> Iterator[str]:
    counts: dict[str, int] = {}
    for each in connections:
        counts[each.listener.name] = counts.get(each.listener.name, 0) + 1
    # The event loop is the only network processor.
    samples = [(labels(listener=name, networkProcessor="0"), count) for name, count in counts.items()]
    name = "kafka_server_socket_server_metrics_connection_count"
    yield from family(
        name, "gauge", "Open connections.", samples or [(labels(listener="", networkProcessor="0"), 0)]
    )


class LoopIdle:
    """The share of time in which the event loop waits, between two scrapes: from the processor time of its thread."""

    def __init__(self) -> None:
        self._last = (time.monotonic_ns(), time.thread_time_ns())
        self._share = 1.0

    def families(self) -> Iterator[str]:
        now = (time.monotonic_ns(), time.thread_time_ns())
        wall = now[0] - self._last[0]
        if wall > 0:
            self._share = min(1.0, max(0.0, 1 - (now[1] - self._last[1]) / wall))
            self._last = now
        text = "Share of time in which the event loop is idle."
        yield from _gauge("kafka_network_socketserver_networkprocessoravgidle_percent", text, self._share)
        name = "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent"
        yield from _gauge(name, text, self._share)


def process_families() -> Iterator[str]:
    """The names of Prometheus's client libraries."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = usage.ru_utime + usage.ru_stime
    yield from family(
        "process_cpu_seconds_total", "counter", "Processor time of the process.", [("", seconds)]
    )
    try:
        count = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are enough
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return  # not on Linux
    tasks = len(asyncio.all_tasks())
    yield from _gauge(
        "ottla_event_loop_tasks", "Tasks of the event loop, among them requests that wait.", tasks
    )
    yield from _gauge("process_open_fds", "Open file descriptors.", count)
    memory = pages * os.sysconf("SC_PAGE_SIZE")
    yield from _gauge("process_resident_memory_bytes", "Resident memory of the process.", memory)
    for name, count in disk_bytes(_read("/proc/self/io")).items():
        text = "Bytes that the process has read from disks, or written to them."
        yield from _gauge(f"kafka_server_kafkaserver_linux_disk_{name}", text, count)


def disk_bytes(text: str) -> dict[str, int]:
    """The entries of a process's I/O statistics that concern disks."""
    entries = (line.partition(":") for line in text.splitlines())
    return {
        name: int(value)
        for name, _, value in entries
        if name in ("read_bytes", "write_bytes") and value.strip()
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def request_families(times: RequestTimes) -> Iterator[str]:
    """The times of requests by API: quantiles of the last minutes, and counts and sums of all time."""
    times.turn()
    name = "kafka_network_requestmetrics_totaltimems"
    lines = [f"# HELP {name} Time of requests, in milliseconds.\n# TYPE {name} summary\n"]
    counts = []
    for api_key, count, sum_ms, quantiles in times:
        api = _api_name(api_key)
        label = labels(request=api)
        counts.append((label, count))
        for share, value in quantiles:
            lines.append(f"{name}{labels(request=api, quantile=_quantile(share))} {number(value)}\n")
        lines.append(f"{name}_sum{label} {number(sum_ms)}\n{name}_count{label} {count}\n")
    if counts:
        yield "".join(lines)
    yield from family("kafka_network_requestmetrics_requests_total", "counter", "Requests.", counts)


def _quantile(share: float) -> str:
    return f"{share:.2f}" if share * 100 == round(share * 100) else f"{share:g}"


def _api_name(api_key: int) -> str:
    try:
        name = ApiKey(api_key).name
    except ValueError:
        return str(api_key)
    return "".join(word.capitalize() for word in name.split("_"))


def _gauge(name: str, text: str, value: float) -> Iterator[str]:
    return family(name, "gauge", text, [("", value)])
