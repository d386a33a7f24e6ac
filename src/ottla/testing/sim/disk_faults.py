"""Faults of disks beyond single errors: no space left, and damage to files that a broker rebuilds from its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from ottla.testing.sim.faults import Faults
from ottla.testing.sim.node import SimNode

_TORN: Final = (".index", ".timeindex")
_EMPTIED: Final = (".snapshot", "-checkpoint")


class DiskFaults(Faults):
    """Injects faults of disks, on one node or several, that do not lose records."""

    def do_full_disk(self) -> None:
        """A disk has no space left for a while; the broker is restarted when it has."""
        node = self._node()
        self._kernel.count("full disks")
        node.disk.full = True
        self._later(lambda: self._repair(node) if node.disk.full else None)

    def do_damage_index(self) -> None:
        """A node is killed, and indexes are torn, or snapshots and checkpoints are empty, when it starts again."""
        node = self._node()
        if node.running:
            node.kill()
            for directory in node.spec.log_dirs:
                if directory != node.disk.failed_dir:
                    self._damage_indexes(node, directory)
            self._restart(node)

    def _damage_indexes(self, node: SimNode, directory: str) -> None:
        rng, disk = self._rng, node.disk
        files = [path for path in _files(node, directory) if path.endswith(_TORN + _EMPTIED)]
        for path in rng.sample(files, min(len(files), rng.randrange(1, 4))):
            self._kernel.count("damaged indexes")
            disk.tear(path, rng.randrange(disk.file_size(path) + 1) if path.endswith(_TORN) else 0)

    def _later(self, act: Callable[[], None]) -> None:
        self._kernel.after_ms(self._rng.uniform(500, 5000), self._cluster.owner, act)


def _files(node: SimNode, directory: str) -> Iterator[str]:
    """The files of a log directory and of its partitions, without those of the quorum."""
    disk = node.disk
    for name in disk.listdir(directory) if disk.is_dir(directory) else ():
        path = f"{directory}/{name}"
        if not disk.is_dir(path):
            yield path
        elif not name.startswith("__cluster_metadata"):
            yield from (f"{path}/{inner}" for inner in disk.listdir(path))
