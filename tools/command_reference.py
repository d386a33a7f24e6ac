"""Write docs/COMMANDS.md: every command of `ottla` with its arguments, options and examples.

python tools/command_reference.py          writes the page
python tools/command_reference.py --check  fails if the page is out of date
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from typing import Any

import typer

from ottla.cli import broker
from ottla.cli.commands import SECTIONS, SUMMARY, CommandTable
from ottla.cli.context import make_options
from ottla.cli.help import lines_of

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "COMMANDS.md"

INTRODUCTION = f"""# Commands

Written by `tools/command_reference.py` from the help of the commands; edit that, not this page.

{SUMMARY} All commands of topics, records, groups, transactions and clusters use Kafka's protocol only, so they work
with Ottla and with Apache Kafka.

## Global options

They are accepted before and after the name of a command.

{{options}}
The address is the first of: `-b`, the context of `-c`, the variables `OTTLA_BOOTSTRAP` and `KAFKA_BOOTSTRAP_SERVERS`,
the context named by `OTTLA_CONTEXT`, the current context (`ottla contexts use`), the cluster that `ottla up` runs,
`127.0.0.1:9092`. Settings of `-X` and of contexts have the names of librdkafka or of Kafka's Java clients.

## Positions

One syntax of positions is used by all commands:

| position | meaning |
|---|---|
| `start`, `end` | the first offset of the log; the offset after its last record |
| `42` | that offset |
| `+5`, `-10` | 5 offsets after the start; 10 offsets before the end |
| `@2026-11-17T10:00` | the first record at or after a time, in UTC unless it has a zone |
| `@-1h` | the first record of the last hour |
| `A:B` | from A up to, but not including, B |

## Output and exit codes

`-o table` is for people, `json`, `jsonl` and `csv` are for programs: numbers are not rounded, times are milliseconds
since 1970, unknown values are null. Messages are printed on standard error.

| exit code | meaning |
|---|---|
| 0 | done, or the reader of the output has closed the pipe |
| 1 | failed: no connection, a timeout, records that were not delivered, a check that is not met |
| 2 | refused, nothing was changed: invalid arguments, what does not exist, errors of the cluster, no confirmation |

Commands that delete or overwrite something show what they will do and ask. `--yes` answers the question, `--dry-run`
changes nothing. Without a terminal they need `--yes`.
"""


def page() -> str:
    """The whole text of the page."""
    parts = [INTRODUCTION.format(options=_options(make_options()))]
    table = CommandTable(name="ottla")
    context = typer.Context(table, info_name="ottla")
    for title, commands in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in commands:
            if name == "broker":
                parts.append(_broker())
            else:
                parts += _command(table.get_command(context, name), f"ottla {name}", context)
    return "\n".join(parts).rstrip() + "\n"


def _command(command: Any, name: str, parent: Any) -> Iterator[str]:
    context = typer.Context(command, info_name=name.rsplit(maxsplit=1)[-1], parent=parent)
    if hasattr(command, "commands"):
        yield f"### {name}\n\n{_text(command.help)}\n"
        for each, below in command.commands.items():
            yield from _command(below, f"{name} {each}", context)
        return
    own = [each for each in command.params if each.expose_value]
    parts = [f"### {name}\n", f"{_text(command.help)}\n", f"```text\n{name}{_usage(own)}\n```\n"]
    if own:
        parts.append(_options(own))
    if command.epilog:
        parts.append(f"```sh\n{_examples(command.epilog)}\n```\n")
    yield "\n".join(parts)


def _usage(params: list[Any]) -> str:
    arguments = [each for each in params if each.param_type_name == "argument"]
    names = [each.name.upper() + ("..." if each.nargs == -1 else "") for each in arguments]
    shown = [name if each.required else f"[{name}]" for name, each in zip(names, arguments, strict=True)]
    return "".join(f" {name}" for name in [*shown, "[OPTIONS]"])


def _options(params: list[Any]) -> str:
    """A table of arguments and options."""
    lines = ["| option | description |", "|---|---|"]
    for each in params:
        help_text = _text(getattr(each, "help", None) or "").replace("|", "\\|")
        if each.param_type_name == "argument":
            names = f"`{each.name.upper()}`" + ("..." if each.nargs == -1 else "")
        else:
            flags = ", ".join(f"`{name}`" for name in [*reversed(each.opts), *each.secondary_opts])
            value = "" if getattr(each, "is_flag", False) else each.metavar or "VALUE"
            names = f"{flags} {value}".strip().replace("|", "\\|")
        lines.append(f"| {names} | {help_text} |")
    return "\n".join(lines) + "\n"


def _text(text: str | None) -> str:
    return re.sub(r"\s*\n\s*\n\s*", "\n\n", re.sub(r"(?<!\n)\n(?!\n)\s*", " ", (text or "").strip()))


def _examples(epilog: str) -> str:
    return "\n".join(lines_of(epilog))


def _broker() -> str:
    os.environ["COLUMNS"] = "110"
    shown = StringIO()
    with redirect_stdout(shown), suppress(SystemExit):
        broker.main(["--help"])
    return f"### ottla broker\n\n```text\n{shown.getvalue().rstrip()}\n```\n"


def main() -> int:
    text = page()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
