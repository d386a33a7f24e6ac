"""`ottla broker`: run a broker.

Its arguments are read by argparse, not typer: the start of a broker is a promise in milliseconds and
megabytes, and what typer loads to convert three texts would cost more than the broker itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

HELP = "Run a broker until SIGTERM or SIGINT. An empty directory becomes a cluster of one node."

EXAMPLES = """\
examples:
  ottla broker --data events                      listen on 127.0.0.1:9092, keep everything below ./events
  ottla broker --config server.properties         the file Apache Kafka would be given
  ottla broker --data events --override listeners=PLAINTEXT://[::1]:9092 --override log.retention.hours=24
  KAFKA_NUM_PARTITIONS=3 ottla broker --data events

Strongest first: --override, KAFKA_... in the environment, the file. docs/CONFIG.md lists every setting.
"""


def main(arguments: Sequence[str]) -> int:
    """Run a broker; the exit code."""
    parser = argparse.ArgumentParser(
        "ottla broker",
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--config", metavar="FILE", help="a server.properties file")
    parser.add_argument("--data", metavar="DIR", help="the log directory")
    parser.add_argument(
        "--override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting, stronger than the file's; may be given again",
    )
    chosen = parser.parse_args(arguments)
    from ottla.node.main import run

    return run(chosen.config, chosen.data, chosen.override)
