"""What an authorizer costs: small requests to a broker with ACL entries and to one without an authorizer.

    python -m bench.authorizer_cost [--rounds 9] [--seconds 3]

Both brokers run at the same time and are loaded in turns by the compiled load generator, with records of 100 bytes and
one record a request: no other load has as many checks per byte. The principal is no super user. An entry for a prefix
allows it to use the topic; other principals have a hundred more entries. Syncing is left to the kernel, because a disk
would hide the cost. The ratios compare neighbouring runs, so that a change of the machine's speed matters little. The
processor time of the broker per request is the steadier figure.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from statistics import median

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bench.peers import KAFKA_FLUSH_POLICY, OttlaPeer
from bench.places import DATA, LOAD, build_loads

TOPIC = "bench"
OTHER_ENTRIES = 100
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""For the creation of topic and entries; the measured broker has no super user."""


def allow(principal: str, name: str, pattern: ResourcePatternType, operation: AclOperation) -> AclBinding:
    return AclBinding(ResourceType.TOPIC, name, pattern, principal, "*", operation, AclPermissionType.ALLOW)


def prepare(peer: OttlaPeer) -> None:
    """Create the topic and, with an authorizer, the entries; then start the broker without a super user."""
    with_authorizer = "authorizer.class.name" in peer.overrides
    peer.wipe()
    with peer:
        admin = AdminClient({"bootstrap.servers": peer.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
        if with_authorizer:
            entries = [
                allow("User:ANONYMOUS", TOPIC[:3], ResourcePatternType.PREFIXED, operation)
                for operation in (AclOperation.WRITE, AclOperation.READ)
            ]
            entries += [
                allow(
                    f"User:other-{number}", f"topic-{number}", ResourcePatternType.LITERAL, AclOperation.ALL
                )
                for number in range(OTHER_ENTRIES)
            ]
            for done in admin.create_acls(entries).values():
                done.result(30)
    if with_authorizer:
        del peer.overrides["super.users"]


def load(peer: OttlaPeer, seconds: float) -> tuple[float, float]:
    """Requests per second, and microseconds of processor time of the broker per request."""
    command = [str(LOAD), "produce", "--port", str(peer.port), "--topic", TOPIC, "--partitions", "4"]
    command += ["--connections", "4", "--inflight", "16", "--seconds", str(seconds), "--warmup", "0.5"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert running.stdout is not None
    running.stdout.readline()
    before = peer.cpu_seconds()
    requests = json.loads(running.communicate()[0])["requests"]
    return requests / seconds, (peer.cpu_seconds() - before) / requests * 1e6


def main() -> None:
    parser = argparse.ArgumentParser("bench.authorizer_cost", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=3.0)
    chosen = parser.parse_args()
    build_loads()
    without = OttlaPeer(DATA / "open", KAFKA_FLUSH_POLICY)
    with_entries = OttlaPeer(DATA / "authorized", {**KAFKA_FLUSH_POLICY, **AUTHORIZER})
    for peer in (without, with_entries):
        prepare(peer)
    rates, costs = [], []
    try:
        for peer in (without, with_entries):
            peer.start(topic=TOPIC)
        for number in range(chosen.rounds):
            order = (without, with_entries) if number % 2 == 0 else (with_entries, without)
            found = {peer: load(peer, chosen.seconds) for peer in order}
            rates.append(found[with_entries][0] / found[without][0])
            costs.append(found[with_entries][1] / found[without][1])
            print(
                f"round {number + 1}: without {found[without][0]:,.0f} requests/s, {found[without][1]:.1f} us; "
                f"with {found[with_entries][0]:,.0f} requests/s, {found[with_entries][1]:.1f} us",
                flush=True,
            )
    finally:
        for peer in (without, with_entries):
            peer.stop()
            shutil.rmtree(peer.data, ignore_errors=True)
    print(
        f"median of the ratios: requests {median(rates):.3f}, processor time per request {median(costs):.3f}"
    )


if __name__ == "__main__":
    main()
