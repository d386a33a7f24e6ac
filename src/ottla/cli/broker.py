"""`ottla broker`: run a broker.

The arguments are parsed by argparse, not by typer: loading typer would take more time and memory than the start of the
broker itself.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress

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


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Has a width of its own: argparse would load shutil, with modules for compression, to find one at each start."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


def _columns() -> int:
    with suppress(KeyError, ValueError):
        return int(os.environ["COLUMNS"])
    with suppress(OSError):
        return os.get_terminal_size().columns
    return 80


def argument_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "ottla broker",
        description=HELP,
        epilog=EXAMPLES,
        formatter_class=_HelpFormatter,
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
        help="found a new cluster although some voters, or the bootstrap servers, are not reachable; metadata on them "
        "would be lost",
    )
    _add_scram_options(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run a broker; return the exit code."""
    parser = argument_parser()
    chosen = parser.parse_args(arguments)
    if chosen.add_scram:
        _hide(arguments, chosen.add_scram)
    if chosen.log_format is not None:
        os.environ["OTTLA_LOG_FORMAT"] = chosen.log_format
    from ottla.base import compiled

    compiled.use()  # before anything of the node is imported
    from ottla.node.main import run  # configures the log

    if chosen.metrics_port is not None:
        chosen.override.append(f"ottla.metrics.port={chosen.metrics_port}")
    try:
        users = [*chosen.add_scram, *_users(chosen.add_scram_file)]
    except OSError as error:
        parser.error(f"--add-scram-file: {error}")
    return run(
        chosen.config,
        chosen.data,
        chosen.override,
        port=chosen.port,
        force_founding=chosen.force_founding,
        add_scram=users,
    )


def _add_scram_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--add-scram",
        metavar="USER",
        action="append",
        default=[],
        help="a SCRAM user of a new cluster: 'SCRAM-SHA-256=[name=alice,password=...]'; can be repeated",
    )
    parser.add_argument(
        "--add-scram-file",
        metavar="FILE",
        action="append",
        default=[],
        help="a file with one such user in each line; has no effect if the cluster exists",
    )


def _users(paths: Sequence[str]) -> list[str]:
    """The texts of files of users."""
    from ottla.security.initial_users import user_lines

    found = []
    for path in paths:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123 - a broker does not load pathlib otherwise
            found += user_lines(file.read())
    return found


def _hide(arguments: Sequence[str], users: Sequence[str]) -> None:
    """Start this process again with the secrets in memory, so that the list of processes does not show them."""
    command = list(sys.orig_argv)
    if command[-len(arguments) :] != list(arguments) or not hasattr(os, "memfd_create"):
        return  # called by another program, which is responsible for its arguments
    descriptor = os.memfd_create("users", 0)
    os.write(descriptor, "\n".join(users).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    kept: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        if argument == "--add-scram":
            next(rest)
        elif not argument.startswith("--add-scram="):
            kept.append(argument)
    kept += ["--add-scram-file", f"/dev/fd/{descriptor}"]
    os.execv(sys.executable, [*command[: -len(arguments)], *kept])  # noqa: S606 - the command of this process


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= PORT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed: 1 to {PORT_MAX}")
    return int(text)
