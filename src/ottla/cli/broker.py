"""`ottla broker`: run a broker.

Its arguments are read by argparse, not typer: the start of a broker is a promise in milliseconds and
megabytes, and what typer loads to convert three texts would cost more than the broker itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

HELP = "Run a broker until SIGTERM or SIGINT. An empty directory becomes a cluster of one node."


def main(arguments: Sequence[str]) -> int:
    """Run a broker; the exit code."""
    parser = argparse.ArgumentParser("ottla broker", description=HELP, allow_abbrev=False)
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
