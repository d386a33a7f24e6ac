"""The `ottla` command.

Each command imports what it needs when it runs, so that the start of a broker stays short.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer


def _app() -> typer.Typer:
    import typer

    from ottla.cli import broker, console, demo, matches, pipelines, up

    app = typer.Typer(
        help="Event streaming with Kafka's protocol and Kafka's file formats.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def ottla() -> None:
        """Event streaming with Kafka's protocol and Kafka's file formats."""

    @app.command("broker", help=broker.HELP, add_help_option=False)
    def listed() -> None:
        """Listed here for the help; `main` passes its arguments to `cli.broker` before typer parses them."""

    app.add_typer(pipelines.app, name="pipelines")
    app.add_typer(matches.app, name="matches")

    app.command(epilog=up.EXAMPLES)(up.up)
    app.command(epilog=demo.EXAMPLES)(demo.demo)
    app.command(epilog=console.EXAMPLES)(console.console)
    return app


def main() -> None:
    if sys.argv[1:2] == ["broker"]:
        from ottla.cli import broker

        sys.exit(broker.main(sys.argv[2:]))
    _app()()


if __name__ == "__main__":
    main()
