"""`ottla doctor`: why a client cannot connect."""

from __future__ import annotations

import typer

from ottla.cli.context import AdminCommand, GlobalOptions, output_of, target_of, timeout_s
from ottla.cli.help import Application, examples
from ottla.cli.output import Column, write
from ottla.cli.terminal import FAILED, exit_on_errors

app = Application(help="Find out why a client cannot connect.")
_TIMEOUT_MAX_S = 5.0
_MARKS = {"ok": "ok    ", "failed": "FAILED", "note": "note  "}
_COLUMNS = (Column("status"), Column("step"), Column("description"), Column("hint"))


@app.command(
    cls=AdminCommand,
    epilog=examples(
        "ottla doctor",
        "ottla doctor -b broker:9092",
        "ottla doctor -b broker:9094 -X security.protocol=SSL -X ssl.ca.location=ca.pem",
    ),
)
def doctor(ctx: typer.Context) -> None:
    """Find out why a client cannot connect.

    Checks settings, names, TCP, TLS, authentication, API versions, and the addresses that the brokers advertise. Exit
    code 1 if a check fails.
    """
    from ottla.admin.doctor import FAILED as CHECK_FAILED
    from ottla.admin.doctor import diagnose

    with exit_on_errors():
        options: GlobalOptions = ctx.obj
        output, target = output_of(options), target_of(options)
        if output.is_table:
            write(f"Checking {target.bootstrap} (from {target.source})\n")
        found = []
        for each in diagnose(target.bootstrap, target.settings, min(timeout_s(options), _TIMEOUT_MAX_S)):
            found.append(each)
            if output.is_table:
                write(f"{_MARKS[each.status]}  {each.step:<10}  {each.text}\n")
                if each.hint:
                    write(f"{'':<6}  {'':<10}  -> {each.hint}\n")
        if not output.is_table:
            rows = [
                {"status": each.status, "step": each.step, "description": each.text, "hint": each.hint}
                for each in found
            ]
            output.rows(_COLUMNS, rows)
        if any(each.status == CHECK_FAILED for each in found):
            raise typer.Exit(FAILED)
        if output.is_table:
            write("A client with these settings can connect.\n")
