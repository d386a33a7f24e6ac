"""The directory of a local cluster: what it was created with, so that the next start opens the same cluster.

`cluster.json` contains the number of brokers, the racks, the first port, whether the cluster is secured, and which
brokers are also controllers. The number of brokers cannot change: data of a broker that is left out would be missing,
and the voters of the quorum are fixed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ottla.base.errors import LocalError
from ottla.base.files import OsLock
from ottla.local.cluster import BrokerPorts, choose_voters, voter_count
from ottla.local.ports import free_port, is_free
from ottla.storage.log_dir import LOCK_FILE

NAME = "cluster.json"
PORT = 9092
BROKERS = 3
CONTROLLER_PORTS_AT = 1_000
"""The distance of a broker's controller port from its client port."""
NODE_PORTS_AT = 2_000
"""The distance of the port for other brokers of a secured cluster."""


@dataclass(frozen=True)
class ClusterDescription:
    """A local cluster: broker `i` listens on `port + i`."""

    brokers: int = BROKERS
    racks: tuple[str, ...] = ()
    port: int = PORT
    secure: bool = False
    """Whether the brokers use TLS, authentication and ACLs."""
    voters: tuple[int, ...] = ()
    """The brokers that are also controllers; empty until they are chosen."""

    def ports(self) -> list[BrokerPorts]:
        clients = range(self.port, self.port + self.brokers)
        return [
            BrokerPorts.direct(port, port + CONTROLLER_PORTS_AT, port + NODE_PORTS_AT if self.secure else 0)
            for port in clients
        ]


def describe(
    data: Path,
    brokers: int | None,
    racks: Sequence[str] | None,
    port: int | None,
    *,
    secure: bool = False,
) -> ClusterDescription:
    """What to start: the given values, else those of the directory, else the defaults. Raises LocalError."""
    known = _read(data)
    if known is not None and brokers not in (None, known.brokers):
        raise LocalError(
            f"--data: {data} has the data of another cluster size ({known.brokers}, not {brokers});"
            f" use --brokers {known.brokers} or another directory"
        )
    if known is None and any(data.glob("meta.properties")):
        raise LocalError(
            f"--data: {data} has the data of a single broker; use `ottla broker --data {data}` or another directory"
        )
    if known is None and (inner := sorted(data.glob(f"*/{NAME}"))):
        raise LocalError(
            f"--data: {data} contains the directory of a cluster; use --data {inner[0].parent} or another directory"
        )
    base = known or ClusterDescription()
    wanted = ClusterDescription(
        base.brokers if brokers is None else brokers,
        base.racks if racks is None else tuple(racks),
        base.port if port is None else port,
        base.secure or secure,
        base.voters,
    )
    if known is not None and secure and not known.secure:
        raise LocalError(
            f"--secure: {data} has the data of a cluster without security; use another directory"
        )
    if len(wanted.racks) > wanted.brokers:
        raise LocalError(
            f"--racks: {len(wanted.racks)} racks need at least as many brokers, not {wanted.brokers}"
        )
    if len(set(wanted.racks)) < len(wanted.racks):
        raise LocalError("--racks: a rack is named twice")
    above = NODE_PORTS_AT if wanted.secure else CONTROLLER_PORTS_AT
    if wanted.port + wanted.brokers - 1 + above > 65_535:
        raise LocalError(f"--port: {wanted.port} is too high: ports up to {above} above it are needed")
    return (
        wanted if known is not None else replace(wanted, voters=choose_voters(wanted.brokers, wanted.racks))
    )


def on_free_ports(description: ClusterDescription) -> ClusterDescription:
    """The same cluster on ports that are free now."""
    while True:
        moved = replace(description, port=free_port())
        if not _taken(moved):
            return moved


def check_ports(description: ClusterDescription) -> None:
    """Raise LocalError if a port of the cluster is in use."""
    if taken := _taken(description):
        listed = ", ".join(map(str, taken))
        raise LocalError(
            f"--port: {listed} in use on 127.0.0.1; stop the other program or use another --port"
        )


def check_unused(data: Path) -> None:
    """Raise LocalError if a broker runs with data of this directory."""
    for path in sorted(data.glob(f"*/{LOCK_FILE}")):
        try:
            OsLock(str(path)).release()
        except LocalError as error:
            raise LocalError(
                f"--data: a broker runs with {path.parent}; stop the command that has started it, or use another"
                " directory"
            ) from error


def _taken(description: ClusterDescription) -> list[int]:
    ports = [
        port for each in description.ports() for port in (each.client, each.controller, each.nodes) if port
    ]
    return sorted(port for port in ports if not is_free(port))


def save(data: Path, description: ClusterDescription) -> None:
    """Record a description in the directory; LocalError if it cannot be written."""
    made = data / f"{NAME}.new"
    try:
        made.write_text(json.dumps(asdict(description)) + "\n")
        made.replace(data / NAME)
    except OSError as error:
        raise LocalError(f"--data: cannot write {data / NAME}: {error.strerror}") from error


def _read(data: Path) -> ClusterDescription | None:
    try:
        values = json.loads((data / NAME).read_text())
        brokers = int(values["brokers"])
        return ClusterDescription(
            brokers,
            tuple(map(str, values["racks"])),
            int(values["port"]),
            bool(values.get("secure", False)),
            tuple(map(int, values.get("voters") or range(voter_count(brokers)))),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LocalError(f"--data: cannot read {data / NAME}: {error}") from error
