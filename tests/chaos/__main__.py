"""`make chaos`: kills, pauses, network faults and power failures of a cluster under load; prints what clients saw."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.chaos.run import Chaos, Plan


def main() -> int:
    parser = argparse.ArgumentParser("chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="kills of one broker each")
    parser.add_argument("--power", type=int, default=5, help="power failures of the whole cluster")
    parser.add_argument("--pauses", type=int, default=None, help="SIGSTOP; by default a quarter of the kills")
    parser.add_argument(
        "--network", type=int, default=None, help="network faults; by default half of the kills"
    )
    parser.add_argument(
        "--brokers", type=int, nargs="+", default=[3, 5], help="sizes of clusters, one run each"
    )
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    found = 0
    for brokers in chosen.brokers:
        share = len(chosen.brokers)
        plan = Plan(
            brokers=brokers,
            kills=-(-chosen.kills // share),
            power=-(-chosen.power // share),
            pauses=-(-(chosen.kills // 4 if chosen.pauses is None else chosen.pauses) // share),
            network=-(-(chosen.kills // 2 if chosen.network is None else chosen.network) // share),
            seed=chosen.seed,
        )
        with tempfile.TemporaryDirectory(prefix="ottla-chaos-") as folder:
            summary = Chaos(plan, Path(folder)).run()
        print(summary.text(), flush=True)
        found += len(summary.anomalies)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
