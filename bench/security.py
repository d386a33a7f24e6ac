"""TLS and SASL_SSL beside Apache Kafka with the same settings: produce, fetch and handshakes.

    python -m bench.security [--megabytes 500] [--rounds 3] [--save]

Each broker has three listeners: PLAINTEXT, SSL (TLS 1.3, a P-256 certificate in a PEM key store, clients without
certificates) and SASL_SSL (the same, with SCRAM-SHA-512). For each protocol, confluent-kafka produces records of 1 KB
and reads them; `openssl s_time` opens new connections. CPU is that of the broker. Ottla runs with its default settings:
a record is synced before it is acknowledged.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from statistics import median

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from rich.console import Console
from rich.table import Table

from bench.kafka_jars import KAFKA_VERSION
from bench.memory import warm_memory
from bench.peers import KafkaPeer, OttlaPeer, Peer, free_port
from bench.places import RESULTS, ROOT
from bench.table import Ratio
from tests.support.certificates import Authority

RECORD_BYTES = 1000
WARM_UP_RECORDS = 50_000
HANDSHAKE_SECONDS = 5
HANDSHAKE_CLIENTS = 2
USER, PASSWORD = "bench", "bench-secret"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_SSL")
REQUIRED = {"MB/s": 1.0, "per s": 1.0}
"""What is required of Ottla with TLS, by unit: a ratio to Apache Kafka's figure."""
Samples = dict[tuple[str, str], dict[str, list[float]]]
"""By row and unit, then by broker, one number for each round."""


class Secured:
    """One broker with a listener for each protocol."""

    def __init__(self, kind: type[Peer], folder: Path, stores: dict[str, str]) -> None:
        self.ports = {protocol: free_port() for protocol in PROTOCOLS}
        self.peer = kind(folder / kind.name, stores, port=self.ports["PLAINTEXT"])
        listeners = ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in self.ports.items())
        overrides = self.peer.overrides
        overrides["listeners"] = listeners
        overrides["sasl.enabled.mechanisms"] = "SCRAM-SHA-512"
        overrides["listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"] = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        )
        if isinstance(self.peer, KafkaPeer):
            overrides["advertised.listeners"] = listeners
            overrides["listeners"] += f",CONTROLLER://127.0.0.1:{self.peer.controller_port}"
            names = ("CONTROLLER:PLAINTEXT", *(f"{protocol}:{protocol}" for protocol in PROTOCOLS))
            overrides["listener.security.protocol.map"] = ",".join(names)

    def address(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"

    def create_user(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.address("PLAINTEXT")})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        user = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([user])[USER].result(30)


def client_options(protocol: str, ca: Path) -> dict[str, str]:
    options = {"security.protocol": protocol}
    if protocol != "PLAINTEXT":
        options["ssl.ca.location"] = str(ca)
    if protocol == "SASL_SSL":
        options |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
    return options


def client(options: dict[str, str], *arguments: str) -> float:
    """The megabytes per second of one run of confluent-kafka."""
    command = [sys.executable, "-m", "bench.confluent_client", *arguments]
    environment = {**os.environ, "CLIENT_OPTIONS": json.dumps(options)}
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment)
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


def measure(broker: Secured, ca: Path, megabytes: int, samples: Samples) -> None:
    """One round of one broker."""
    peer, records = broker.peer, str(megabytes * 1_000_000 // RECORD_BYTES)

    def row(name: str, unit: str, run: Callable[[], float]) -> None:
        warm_memory()
        before = peer.cpu_seconds()
        samples.setdefault((name, unit), {}).setdefault(peer.name, []).append(run())
        if unit == "MB/s":
            used = (peer.cpu_seconds() - before) / (megabytes / 1000)
            samples.setdefault((f"{name}: CPU", "s/GB"), {}).setdefault(peer.name, []).append(used)

    with peer:
        broker.create_user()
        for protocol in PROTOCOLS:
            options, address = client_options(protocol, ca), broker.address(protocol)
            client(options, "produce", address, "warm-up", str(WARM_UP_RECORDS), str(RECORD_BYTES))
            produce = ("produce", address, protocol, records, str(RECORD_BYTES))
            row(f"produce, {protocol}", "MB/s", lambda o=options, a=produce: client(o, *a))
            fetch = ("consume", address, protocol, records)
            row(f"fetch, {protocol}", "MB/s", lambda o=options, a=fetch: client(o, *a))
        row("TLS 1.3 handshakes", "per s", lambda: handshakes(broker.ports["SSL"], ca))


def lines(samples: Samples) -> Iterator[tuple[str, str, str]]:
    for (name, unit), found in samples.items():
        ours, theirs = median(found[OttlaPeer.name]), median(found[KafkaPeer.name])
        target = None if "PLAINTEXT" in name else REQUIRED.get(unit)
        ratio = Ratio(ours / theirs, target, at_most=False, beside_disk=False)
        yield name, f"{theirs:,.1f} {unit}", f"{ours:,.1f} {unit}, {ratio.text()}"


def write_results(samples: Samples, began: datetime, rounds: int) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    out = [
        "# TLS and SASL_SSL",
        "",
        f"- {began:%Y-%m-%d}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"Apache Kafka {KAFKA_VERSION}",
        f"- `python -m bench.security`; medians of {rounds} round(s); load average at the end "
        f"{os.getloadavg()[0]:.0f}",
        "- one broker each, records of 1 KB, TLS 1.3, SASL_SSL with SCRAM-SHA-512; Ottla syncs each record",
        "",
        "| row | kafka | ottla-synced |",
        "|---|---:|---:|",
        *(f"| {' | '.join(line)} |" for line in lines(samples)),
    ]
    (RESULTS / "security.md").write_text("\n".join(out) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser("bench.security", description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", action="store_true", help="write bench/results")
    chosen = parser.parse_args()
    console, began, samples = Console(), datetime.now(), Samples()
    kinds: tuple[type[Peer], ...] = (KafkaPeer, OttlaPeer)
    for number in range(chosen.rounds):
        for kind in kinds if number % 2 == 0 else kinds[::-1]:
            console.print(f"round {number + 1} of {chosen.rounds}: {kind.name}")
            with tempfile.TemporaryDirectory(prefix="bench-security-") as name:
                folder, authority = Path(name), Authority()
                ca = authority.write_pem(folder / "ca.pem")
                stores = {
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.location": str(authority.issue("broker").write_pem(folder / "broker.pem")),
                    "ssl.truststore.type": "PEM",
                    "ssl.truststore.location": str(ca),
                }
                measure(Secured(kind, folder, stores), ca, chosen.megabytes, samples)
    table = Table("row", "kafka", "ottla-synced", title="TLS and SASL_SSL: medians")
    for line in lines(samples):
        table.add_row(*line)
    console.print(table)
    if chosen.save:
        write_results(samples, began, chosen.rounds)


if __name__ == "__main__":
    main()
