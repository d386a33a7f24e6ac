"""The `ottla` command.

Each command imports what it needs when it runs: starting a broker must not pay for tables and colours.
"""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer(
    help="Event streaming that speaks Kafka's protocol and keeps Kafka's files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def ottla() -> None:
    """Event streaming that speaks Kafka's protocol and keeps Kafka's files."""


@app.command()
def broker(
    config: Annotated[str | None, typer.Option(help="A server.properties file.", metavar="FILE")] = None,
    data: Annotated[str | None, typer.Option(help="The log directory.", metavar="DIR")] = None,
    override: Annotated[
        list[str] | None, typer.Option(help="A setting, stronger than the file's.", metavar="KEY=VALUE")
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT. An empty directory becomes a cluster of one node."""
    from ottla.node.main import run

    raise typer.Exit(run(config, data, override or []))


def main() -> None:
    app()


if __name__ == "__main__":
    main()
