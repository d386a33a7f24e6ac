"""The help of commands: one plain format for all of them, with the examples as lines that can be copied.

`Application` replaces typer.Typer: its commands and groups use this format, and it does not add the options with which
typer installs completions (`ottla completion` does that). The help of a group has the first example of each command.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

GLOBAL_OPTIONS = "Global options"
"""The section of the options that most commands share."""
_TITLE = "Examples:"
_TYPE: Final = re.compile(r"<(?:list\[)?([^<>\[\]]+)\]?>")
"""How typer writes the type of a value."""
_PLACEHOLDERS: Final = {
    "int": "N",
    "int range": "N",
    "float": "N",
    "float range": "N",
    "path": "PATH",
    "str": "TEXT",
}

_Function = TypeVar("_Function", bound=Callable[..., Any])


def examples(*commands: str) -> str:
    """The epilog of a command's help: one command per line."""
    return "\n".join((_TITLE, *commands))


def lines_of(epilog: str | None) -> list[str]:
    """The examples of an epilog."""
    return [line for line in (epilog or "").splitlines() if line.strip() and line != _TITLE]


class HelpCommand(TyperCommand):
    """A command."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(_usage_of(each) for each in _arguments(self.get_params(ctx)))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        _write_examples(formatter, lines_of(self.epilog))


class HelpGroup(TyperGroup):
    """A command with commands below it."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        _write_parameters(self, ctx, formatter)
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(each)) for name, each in self.commands.items()])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        below = [lines_of(each.epilog)[:1] for each in self.commands.values()]
        _write_examples(formatter, lines_of(self.epilog) or [line for lines in below for line in lines])


class Application(typer.Typer):
    """A command, or a group of commands, with help in this format."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cls=HelpGroup, add_completion=False, rich_markup_mode=None, **options)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = HelpCommand, **options: Any
    ) -> Callable[[_Function], _Function]:
        return super().command(name, cls=cls, **options)


def _summary(command: Any) -> str:
    """The first paragraph of the help of a command."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def _arguments(params: list[Any]) -> list[Any]:
    return [each for each in params if each.param_type_name == "argument"]


def _name_of(argument: Any) -> str:
    name = str(argument.metavar or argument.name.upper())
    return name + ("..." if argument.nargs == -1 else "")


def _usage_of(argument: Any) -> str:
    return _name_of(argument) if argument.required else f"[{_name_of(argument)}]"


def _write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    arguments: list[tuple[str, str]] = []
    options: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for each in command.get_params(ctx):
        record = each.get_help_record(ctx)
        if record is None:
            continue
        if each.param_type_name == "argument":
            arguments.append((_name_of(each), record[1].removesuffix("[required]").rstrip()))
        else:
            flags = _TYPE.sub(lambda found: _PLACEHOLDERS.get(found[1], found[1]), record[0])
            target = shared if getattr(each, "rich_help_panel", None) == GLOBAL_OPTIONS else options
            target.append((flags, record[1]))
    for title, records in (("Arguments", arguments), ("Options", options), (GLOBAL_OPTIONS, shared)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _write_examples(formatter: Any, lines: list[str]) -> None:
    """Examples are not wrapped: a line must be a whole command."""
    if lines:
        with formatter.section(_TITLE.removesuffix(":")):
            for line in lines:
                formatter.write(f"{' ' * formatter.current_indent}{line}\n")
