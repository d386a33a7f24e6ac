"""The `ottla` command.

Each command imports what it needs when it runs: starting a broker must not pay for tables and colours.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def _app() -> typer.Typer:
    import typer

    from ottla.cli import broker, demo, matches, pipelines

    app = typer.Typer(
        help="Event streaming that speaks Kafka's protocol and keeps Kafka's files.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def ottla() -> None:
        """Event streaming that speaks Kafka's protocol and keeps Kafka's files."""

    @app.command("broker", help=broker.HELP, add_help_option=False)
    def listed() -> None:
        """Only listed here; `main` hands its arguments to `cli.broker` before they are looked at."""

    app.add_typer(pipelines.app, name="pipelines")
    app.add_typer(matches.app, name="matches")

    app.command(epilog=demo.EXAMPLES)(demo.demo)
    return app


def main() -> None:
    if sys.argv[1:2] == ["broker"]:
        from ottla.cli import broker

        sys.exit(broker.main(sys.argv[2:]))
    _app()()


if __name__ == "__main__":
    main()
