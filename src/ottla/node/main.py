"""Runs a broker process: settings, event loop, signals, and one line on standard output when it serves.

Standard output has only that line, for the parent process; the log is written to standard error. SIGTERM and
SIGINT stop the broker cleanly. Exit code: 0 after a clean stop, 1 if the broker cannot start or continue.

A node without other brokers whose disk is full is started again in the same process when the disk has space.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

import msgspec

from ottla.node.logs import configure_logs

log = configure_logs()

from ottla.base.errors import LocalError  # noqa: E402 - the log is configured first, see `logs`
from ottla.base.files import OsDisk, drop_page_cache  # noqa: E402
from ottla.node.build import Node  # noqa: E402
from ottla.node.full_disk import CHECK_INTERVAL_S, has_space  # noqa: E402
from ottla.node.settings.config import NodeConfig, load  # noqa: E402
from ottla.records import kernel  # noqa: E402
from ottla.security.initial_users import parse_users  # noqa: E402

if TYPE_CHECKING:
    from ottla.broker.net.listeners import Listener


# Allocations that start a collection of the youngest generation; Python's default is 700.
_GC_THRESHOLD = 50_000


def run(
    config_path: str | None,
    data: str | None,
    overrides: Sequence[str],
    *,
    port: int | None = None,
    force_founding: bool = False,
    add_scram: Sequence[str] = (),
) -> int:
    """Run a broker until it is stopped; returns the exit code."""
    _occupy_standard_descriptors()
    try:
        config = load(
            config_path,
            os.environ,
            overrides,
            data,
            port=port,
            force_founding=force_founding,
            users=tuple(parse_users(add_scram, os.urandom)),
        )
        while True:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                result = runner.run(_serve(config))
            if isinstance(result, int):
                return result
            config = result
    except LocalError as error:
        log.error("cannot start", reason=str(error))  # noqa: TRY400 - the operator needs no traceback
        return 1
    finally:
        _abandon_failed_streams()


def _abandon_failed_streams() -> None:
    """Discard output that cannot be written: Python would end with exit code 120 because of it."""
    streams: tuple[TextIO | None, ...] = (sys.stdout, sys.stderr)  # None if it was closed before the start
    for stream in streams:
        if stream is None:
            continue
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _occupy_standard_descriptors() -> None:
    """Open missing standard streams, so that no other file gets their descriptors and their output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop, if it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(config: NodeConfig) -> int | NodeConfig:
    """Run a node until it is stopped; returns the exit code, or the settings to start it again."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for notice in config.notices:
        log.log(_LEVELS[notice.level], notice.text)
    node = Node(config, log)
    starting = asyncio.ensure_future(node.start())
    stopping = asyncio.ensure_future(stop.wait())
    ends: set[asyncio.Future[Any]] = {stopping, node.failed}
    await asyncio.wait({starting, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        return await _abandon_start(node, starting)
    try:
        listeners = starting.result()
    except BaseException:
        node.release()
        raise
    _tune_garbage_collector()
    _tune_memory_allocator()
    _release_code()
    _print_ready(listeners)
    await asyncio.wait({*ends, node.disk_full}, return_when=asyncio.FIRST_COMPLETED)
    if not any(end.done() for end in ends) and await _space_found(node.disk_full.result(), ends):
        stopping.cancel()
        await node.stop()
        return await _restarted(config, listeners)
    failed = node.failed.done()
    if failed:
        log.error("stopping", reason=node.failed.result())
    await node.stop()
    if failed and node.full and not stop.is_set():
        log.error(
            "stopped until the disk has space; then the broker starts again by itself", directories=node.full
        )
        if await _space_found(node.full, {stopping}):
            stopping.cancel()
            return await _restarted(config, listeners)
        return 0
    stopping.cancel()
    return 1 if failed else 0


async def _restarted(config: NodeConfig, listeners: Sequence[Listener]) -> NodeConfig:
    """The settings to start a node again that was stopped because of a full disk (decision 24)."""
    log.warning("the disk has space again: starting the broker again")
    for directory in {*config.log_dirs, config.metadata_log_dir}:
        await asyncio.to_thread(drop_page_cache, directory)
    return msgspec.structs.replace(config, listeners=tuple(listeners), notices=())


async def _space_found(directories: Sequence[str], ends: set[asyncio.Future[Any]]) -> bool:
    """Wait until all directories have space again; False if the node ends before."""
    disk = OsDisk()
    while not await asyncio.to_thread(has_space, disk, directories):
        await asyncio.wait(ends, timeout=CHECK_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
        if any(end.done() for end in ends):
            return False
    return not any(end.done() for end in ends)


async def _abandon_start(node: Node, starting: asyncio.Future[Any]) -> int:
    """End a node that waits for other nodes and has not started; for its directories this is a kill."""
    starting.cancel()
    with suppress(asyncio.CancelledError, LocalError):
        await starting
    node.release()
    if node.failed.done():
        log.error("cannot start", reason=node.failed.result())
        return 1
    return 0


def _tune_garbage_collector() -> None:
    """Exclude long-lived objects from collections, and collect rarely: requests create no cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


def _tune_memory_allocator() -> None:
    """Return to the system what the start has freed, and keep later what requests have used; only for glibc.

    A large frame is received into new memory. By default it is mapped for each frame, or returned after it: then the
    system clears the pages of every frame.
    """
    with suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        libc.mallopt(_M_MMAP_THRESHOLD, _FRAME_BYTES_KEPT)
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _FRAME_BYTES_KEPT)


def _release_code() -> None:
    """Return the pages of machine code to the system: most were needed for the start only. Others are mapped again.

    The mappings are private and never written, so that their content is that of the files.
    """
    with suppress(AttributeError, OSError, ValueError):
        madvise = ctypes.CDLL(None).madvise
        with open("/proc/self/maps", encoding="utf-8") as file:  # noqa: PTH123 - no file of a disk
            mappings = [line.split() for line in file]
        for place, permissions, _, _, inode, *_ in mappings:
            if permissions == "r-xp" and inode != "0":
                start, end = (int(bound, 16) for bound in place.split("-"))
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _MADV_DONTNEED)


def _print_ready(listeners: Sequence[Listener]) -> None:
    addresses = " ".join(
        f"{each.name}://{_host(each.advertised_host)}:{each.advertised_port}" for each in listeners
    )
    note = "" if kernel.COMPILED else " (kernels in plain Python)"
    # Standard output may be closed.
    with suppress(OSError, ValueError, AttributeError):
        sys.stdout.write(f"ready {addresses}{note}\n")
        sys.stdout.flush()


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


_LEVELS = {"info": 20, "warning": 30}
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_MADV_DONTNEED: Final = 4
_FRAME_BYTES_KEPT: Final = 16 << 20
"""Memory of frames up to this size is used again. Of free memory, the process keeps about twice that."""
