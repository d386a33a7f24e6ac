"""Table of all commands: their sections and summaries, and the modules that are imported when a command is called.

The help of `ottla` is printed from this table, without an import of the commands, of rich, or of a client.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ottla.cli.closed_pipe import quiet_end
from ottla.cli.help import Application

if TYPE_CHECKING:
    from collections.abc import Iterable

SUMMARY = "Event streaming with Kafka's protocol and Kafka's file formats."
SECTIONS: dict[str, dict[str, str]] = {
    "Run": {
        "up": "Start a cluster on this machine and show its state.",
        "broker": "Run one node.",
        "demo": "Run a cluster, matches, and their scoreboard on Spark.",
        "console": "Show a cluster in a browser: topics, records, groups, brokers, pipelines.",
        "secure": "Create certificates, an administrator and settings for a secured cluster.",
    },
    "Topics and records": {
        "topics": "List, describe, create, change, trim, clone and delete topics.",
        "produce": "Produce records from options, lines, JSON lines or CSV.",
        "consume": "Read records between positions, filtered, or follow new ones.",
    },
    "Groups and transactions": {
        "groups": "List and describe groups with their lag; reset and delete their offsets.",
        "transactions": "List and describe transactions; find and abort those that hang.",
    },
    "Cluster": {
        "cluster": "Show brokers, quorum, disks and health; elect leaders; kill and restart local brokers.",
        "top": "Show rates of topics and lag of groups, refreshed.",
        "check": "Check a cluster; the exit code is 0 if all is well, 1 if not.",
        "doctor": "Find out why a client cannot connect.",
        "contexts": "Choose the cluster that commands connect to.",
    },
    "Pipelines": {
        "pipelines": "Run pipelines and show their progress.",
        "matches": "Generate basketball matches into a topic.",
    },
    "This program": {
        "completion": "Print or install the completion of a shell.",
    },
}
COMMANDS = {name: summary for section in SECTIONS.values() for name, summary in section.items()}
_FOLDERS = {
    "": ("broker",),
    "local.": ("up", "demo", "console", "matches", "secure"),
    "admin.": (
        "topics",
        "groups",
        "transactions",
        "cluster",
        "top",
        "check",
        "doctor",
        "contexts",
        "completion",
    ),
}
MODULES = {name: f"ottla.cli.{folder}{name}" for folder, names in _FOLDERS.items() for name in names} | {
    "produce": "ottla.cli.records.record_commands",
    "consume": "ottla.cli.records.record_commands",
    "pipelines": "ottla.cli.pipelines.commands",
}
"""A module has `NAME_app` or `app`, a typer application, or a function with the name of the command and EXAMPLES."""
_BROKER = "broker"
_UNPARSED = {"allow_extra_args": True, "ignore_unknown_options": True}
_FOOTER = "`ottla COMMAND --help` describes a command and has examples. Guide: docs/COMMANDS.md"


class CommandTable(TyperGroup):
    """The group `ottla`; it imports a command when the command is called."""

    _summaries_only = False

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with quiet_end():  # typer would exit with code 1
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with quiet_end():
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        if self._summaries_only:
            return TyperCommand(name=cmd_name, help=COMMANDS[cmd_name])
        command = typer.main.get_command(_application(cmd_name))
        command.name = cmd_name
        return command

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete names of commands without an import of all of them."""
        self._summaries_only = True
        try:
            return super().shell_complete(ctx, incomplete)
        finally:
            self._summaries_only = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        self.commands = dict.fromkeys(COMMANDS)  # type: ignore[assignment]  # the names for suggestions
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(SUMMARY)
        with formatter.section("Options"):
            formatter.write_dl(_option_help(self.get_params(ctx), ctx))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()), col_max=14)
        formatter.write_paragraph()
        formatter.write_text(_FOOTER)


def _application(name: str) -> typer.Typer:
    module = import_module(MODULES[name])
    app = getattr(module, f"{name}_app", None) or getattr(module, "app", None)
    if isinstance(app, typer.Typer):
        return app
    made = Application()
    if name == _BROKER:
        made.command(add_help_option=False, context_settings=_UNPARSED)(_run_broker)
    else:
        made.command(epilog=module.EXAMPLES)(getattr(module, name))
    return made


def _run_broker(ctx: typer.Context) -> None:
    from ottla.cli import broker

    raise typer.Exit(broker.main(ctx.args))


def _option_help(params: Iterable[Any], ctx: Any) -> list[tuple[str, str]]:
    return [found for each in params if (found := each.get_help_record(ctx)) is not None]
