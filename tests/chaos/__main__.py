"""`make chaos`: faults of clusters of broker processes under load; prints what clients observed."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos import java_load, small_disk
from tests.chaos.faults import Plan
from tests.chaos.run import Chaos

SWITCH_INTERVAL_S = 0.0005
"""The proxies, through which all brokers communicate, share this process with the clients: they must not wait long."""


def main() -> int:
    parser = argparse.ArgumentParser("chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills of one broker each")
    parser.add_argument("--power", type=int, default=5, help="power failures of the whole cluster")
    parser.add_argument("--pauses", type=int, help="SIGSTOP; by default a quarter of the kills")
    parser.add_argument("--network", type=int, help="network faults; by default half of the kills")
    parser.add_argument("--full", type=int, help="full disks; by default a tenth of the kills; needs root")
    parser.add_argument(
        "--brokers", type=int, nargs="+", default=[3, 5], help="sizes of clusters, one run each"
    )
    parser.add_argument(
        "--java", action=argparse.BooleanOptionalAction, default=True, help="with Java clients"
    )
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    java = chosen.java and _is_available("Java clients", java_load.unavailable())
    full = -(-chosen.kills // 10) if chosen.full is None else chosen.full
    if full and not _is_available("full disks", small_disk.unavailable()):
        full = 0
    found = 0
    for brokers in chosen.brokers:
        share = len(chosen.brokers)
        plan = Plan(
            brokers=brokers,
            kills=-(-chosen.kills // share),
            power=-(-chosen.power // share),
            pauses=-(-(chosen.kills // 4 if chosen.pauses is None else chosen.pauses) // share),
            network=-(-(chosen.kills // 2 if chosen.network is None else chosen.network) // share),
            full=-(-full // share),
            seed=chosen.seed,
            java=java,
        )
        folder = Path(tempfile.mkdtemp(prefix="ottla-chaos-"))
        try:
            summary = Chaos(plan, folder).run()
        except BaseException:
            print(f"chaos: the data are in {folder}", flush=True)
            raise
        print(summary.text(), flush=True)
        found += len(summary.anomalies)
        if summary.anomalies:
            print(f"chaos: the data are in {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    return 1 if found else 0


def _is_available(what: str, reason: str | None) -> bool:
    if reason is not None:
        print(f"chaos: without {what}: {reason}", flush=True)
    return reason is None


if __name__ == "__main__":
    sys.exit(main())
