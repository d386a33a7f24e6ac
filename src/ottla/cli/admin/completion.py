"""`ottla completion`: the script that completes commands, topics and groups in a shell."""

from __future__ import annotations

from typing import Annotated

import typer

from ottla.base.errors import LocalError
from ottla.cli.help import Application, examples
from ottla.cli.terminal import exit_on_errors

SHELLS = ("bash", "zsh", "fish")
app = Application(help="Print or install the completion of a shell.")


def _complete_shell(incomplete: str) -> list[str]:
    return [each for each in SHELLS if each.startswith(incomplete)]


@app.command(
    epilog=examples(
        "ottla completion bash --install",
        "source <(ottla completion bash)",
        "ottla completion fish > ~/.config/fish/completions/ottla.fish",
    )
)
def completion(
    shell: Annotated[
        str, typer.Argument(help=f"The shell: {', '.join(SHELLS)}.", autocompletion=_complete_shell)
    ],
    install: Annotated[bool, typer.Option("--install", help="Install it for this user.")] = False,
) -> None:
    """Print or install the completion of commands, options, topics, groups and contexts for a shell."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]
    from typer.completion import install as install_script  # type: ignore[attr-defined]

    from ottla.cli.main import COMPLETION_VARIABLE

    with exit_on_errors():
        if shell not in SHELLS:
            raise LocalError(f"the shell can be {', '.join(SHELLS)}, not {shell}")
        if install:
            _, path = install_script(shell=shell, prog_name="ottla", complete_var=COMPLETION_VARIABLE)
            typer.echo(f"The completion is installed in {path}. It works in new shells.")
            return
        typer.echo(get_completion_script(prog_name="ottla", complete_var=COMPLETION_VARIABLE, shell=shell))
