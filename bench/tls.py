"""TLS beside Apache Kafka with the same settings: produce, fetch and handshakes.

    python -m bench.tls [MEGABYTES]

Each broker has a plain listener and one with TLS 1.3, a P-256 certificate in a PEM key store, and clients without
certificates. For each protocol, confluent-kafka produces records of 1 KB and reads them; `openssl s_time` opens new
connections. The processor time of the broker is printed as well: on a busy machine it is the steadier figure. On a
machine that does other work, the ratios are noisy.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.peers import KafkaPeer, OttlaPeer, Peer, free_port
from tests.support.certificates import Authority

RECORD_BYTES = 1000
HANDSHAKE_SECONDS = 5
HANDSHAKE_CLIENTS = 2
PROTOCOLS = ("PLAINTEXT", "SSL")


class Row:
    """One figure of both brokers."""

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self.unit = unit
        self.values: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def text(self) -> str:
        ours, theirs = self.values["Ottla"], self.values["Kafka"]
        cpu = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in self.cpu.items())
        return (
            f"{self.name}: Ottla {ours:.0f}, Kafka {theirs:.0f} {self.unit}, {ours / theirs:.2f} x; "
            f"processor time of the broker: {cpu}"
        )


def peers(folder: Path) -> list[tuple[Peer, int]]:
    """Both brokers, each with the port of its listener with TLS."""
    authority = Authority()
    ca, own = (
        authority.write_pem(folder / "ca.pem"),
        authority.issue("broker").write_pem(folder / "broker.pem"),
    )
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(own),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(ca),
    }
    made: list[tuple[Peer, int]] = []
    for kind in (OttlaPeer, KafkaPeer):
        peer, port = kind(folder / kind.name, settings), free_port()
        listeners = f"PLAINTEXT://127.0.0.1:{peer.port},SSL://127.0.0.1:{port}"
        peer.overrides["listeners"] = listeners
        if isinstance(peer, KafkaPeer):
            peer.overrides["advertised.listeners"] = listeners
            peer.overrides["listeners"] += f",CONTROLLER://127.0.0.1:{peer.controller_port}"
            protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"
            peer.overrides["listener.security.protocol.map"] = protocols
        made.append((peer, port))
    return made


def client(protocol: str, ca: Path, *arguments: str) -> float:
    """The megabytes per second of one run of confluent-kafka."""
    options = {"security.protocol": "SSL", "ssl.ca.location": str(ca)} if protocol == "SSL" else {}
    command = [sys.executable, "-m", "bench.confluent_client", *arguments]
    environment = {**os.environ, "CLIENT_OPTIONS": json.dumps(options)}
    done = subprocess.run(command, check=True, capture_output=True, env=environment)
    return float(json.loads(done.stdout)["mb_per_s"])


def handshakes(port: int, ca: Path) -> float:
    """New connections per second, by several clients at once."""
    command = ["openssl", "s_time", "-new", "-tls1_3", "-time", str(HANDSHAKE_SECONDS), "-CAfile", str(ca)]
    running = [
        subprocess.Popen(
            [*command, "-connect", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for _ in range(HANDSHAKE_CLIENTS)
    ]
    total = 0.0
    for each in running:
        output = each.communicate()[0].decode()
        found = re.search(r"(\d+) connections in (\d+) real seconds", output)
        if found is None:
            raise SystemExit(f"openssl s_time: {output}")
        total += int(found[1]) / HANDSHAKE_SECONDS
    return total


def measure(row: Row, peer: Peer, run: Callable[[], float]) -> None:
    before = peer.cpu_seconds()
    row.values[peer.name] = run()
    row.cpu[peer.name] = peer.cpu_seconds() - before


def main(megabytes: int = 500) -> None:
    records = str(megabytes * 1_000_000 // RECORD_BYTES)
    rows: dict[str, Row] = {}
    with tempfile.TemporaryDirectory(prefix="bench-tls-") as name:
        folder = Path(name)
        ca = folder / "ca.pem"
        for peer, port in peers(folder):
            with peer:
                for protocol in PROTOCOLS:
                    address, topic = f"127.0.0.1:{peer.port if protocol == 'PLAINTEXT' else port}", protocol
                    client(protocol, ca, "produce", address, "warm", "20000", str(RECORD_BYTES))
                    row = rows.setdefault(f"p{protocol}", Row(f"produce {protocol}", "MB/s"))
                    produce = ("produce", address, topic, records, str(RECORD_BYTES))
                    measure(row, peer, lambda p=protocol, a=produce: client(p, ca, *a))
                    row = rows.setdefault(f"f{protocol}", Row(f"fetch {protocol}", "MB/s"))
                    fetch = ("consume", address, topic, records)
                    measure(row, peer, lambda p=protocol, a=fetch: client(p, ca, *a))
                row = rows.setdefault("h", Row("TLS 1.3 handshakes", "per s"))
                measure(row, peer, lambda port=port: handshakes(port, ca))
    for row in rows.values():
        print(row.text())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
