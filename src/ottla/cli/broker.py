"""`ottla broker`: run a broker.

The arguments are parsed by argparse, not by typer: loading typer would take more time and memory than the start of the
broker itself.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

HELP = "Run a node until SIGTERM or SIGINT. In an empty directory, create a cluster, of one node by default."

PORT_MAX = 65_535
EXAMPLES = """\
examples:
  ottla broker --data events                      listen on 127.0.0.1:9092, store data below ./events
  ottla broker --port 19092                       listen on 127.0.0.1:19092, store data below ./ottla-data
  ottla broker --config server.properties         use a configuration file of Apache Kafka
  ottla broker --data events --override listeners=PLAINTEXT://[::1]:9092 --override log.retention.hours=24
  KAFKA_NUM_PARTITIONS=3 ottla broker --data events

Settings are applied in this order of precedence: --override, environment variables KAFKA_..., the file.
docs/CONFIG.md lists all settings.
"""


def main(arguments: Sequence[str]) -> int:
    """Run a broker; return the exit code."""
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
        "--port", metavar="PORT", type=_port, help="the port on 127.0.0.1 for clients, 9092 by default"
    )
    parser.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=_port,
        help="serve metrics for Prometheus at http://127.0.0.1:PORT/metrics; without it they are not served",
    )
    parser.add_argument(
        "--log-format",
        metavar="FORMAT",
        choices=("text", "keyvalue", "json"),
        help="text, keyvalue or json; text on a terminal and keyvalue otherwise",
    )
    parser.add_argument(
        "--override",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set KEY to VALUE, overriding the file and the environment; can be repeated",
    )
    parser.add_argument(
        "--force-founding",
        action="store_true",
        help="found a new cluster although some voters are not reachable; metadata on them would be lost",
    )
    chosen = parser.parse_args(arguments)
    if chosen.log_format is not None:
        os.environ["OTTLA_LOG_FORMAT"] = chosen.log_format
    from ottla.node.main import run  # configures the log

    if chosen.metrics_port is not None:
        chosen.override.append(f"ottla.metrics.port={chosen.metrics_port}")
    return run(
        chosen.config, chosen.data, chosen.override, port=chosen.port, force_founding=chosen.force_founding
    )


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 1 to {PORT_MAX}")
    return int(text)
