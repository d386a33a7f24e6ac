"""`ottla contexts`: named clusters in the user's configuration folder."""

from __future__ import annotations

from typing import Annotated

import typer

from ottla.cli.completion_values import complete_context
from ottla.cli.context import AdminCommand, output_of, parse_settings, target_of
from ottla.cli.help import Application, examples
from ottla.cli.output import Column
from ottla.cli.terminal import exit_on_errors

app = Application(help="Choose the cluster that commands connect to.", no_args_is_help=True)
_COLUMNS = (
    Column("current", show=lambda value: "*" if value else ""),
    Column("name"),
    Column("bootstrap"),
    Column("settings", show=lambda value: " ".join(value) or "-"),
)


Name = Annotated[str, typer.Argument(help="Name of the context.", autocompletion=complete_context)]


@app.command("list", cls=AdminCommand, epilog=examples("ottla contexts list", "ottla contexts list -o json"))
def list_(ctx: typer.Context) -> None:
    """List all contexts; `*` marks the one that commands use."""
    from ottla.admin.contexts import ContextFolder

    with exit_on_errors():
        output = output_of(ctx.obj)
        folder = ContextFolder.of_user()
        default = folder.default()
        loaded = [folder.load(name) for name in folder.names()]
        output.rows(
            _COLUMNS,
            [
                {
                    "current": default is not None and each.name == default.name,
                    "name": each.name,
                    "bootstrap": each.bootstrap,
                    "settings": sorted(each.settings),
                }
                for each in loaded
            ],
            empty="There are no contexts. `ottla contexts add NAME -b HOST:PORT` adds one.",
        )


@app.command(
    epilog=examples(
        "ottla contexts add production -b broker1:9092,broker2:9092",
        "ottla contexts add secure -b broker:9094 -X security.protocol=SSL -X ssl.ca.location=ca.pem",
    )
)
def add(
    name: Name,
    bootstrap: Annotated[str, typer.Option("--bootstrap", "-b", help="Bootstrap servers, HOST:PORT,...")],
    settings: Annotated[
        list[str] | None, typer.Option("--setting", "-X", help="Client setting KEY=VALUE. Can be repeated.")
    ] = None,
) -> None:
    """Add a context, or replace it."""
    from ottla.admin.contexts import Context, ContextFolder

    with exit_on_errors():
        path = ContextFolder.of_user().save(Context(name, bootstrap, parse_settings(settings or ())))
        typer.echo(f"Context {name} is in {path}. `ottla contexts use {name}` makes it the current one.")


@app.command(epilog=examples("ottla contexts use production"))
def use(name: Name) -> None:
    """Choose the context of the following commands."""
    from ottla.admin.contexts import ContextFolder

    with exit_on_errors():
        ContextFolder.of_user().use(name)
        typer.echo(f"The current context is {name}.")


@app.command(cls=AdminCommand, epilog=examples("ottla contexts show", "ottla contexts show -c production"))
def show(ctx: typer.Context) -> None:
    """Show the address that commands connect to, and where it is from."""
    with exit_on_errors():
        target = target_of(ctx.obj)
        facts = {"bootstrap": target.bootstrap, "source": target.source, "settings": sorted(target.settings)}
        output_of(ctx.obj).document(facts)


@app.command(epilog=examples("ottla contexts delete production"))
def delete(name: Name) -> None:
    """Delete a context."""
    from ottla.admin.contexts import ContextFolder

    with exit_on_errors():
        ContextFolder.of_user().delete(name)
        typer.echo(f"Context {name} is deleted.")
