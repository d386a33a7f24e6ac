"""Global options: the cluster to connect to, the output format, the timeout; and the session made from them.

The options are accepted before and after the name of a command. The address is the first of: `-b`, the context of
`-c`, OTTLA_BOOTSTRAP, KAFKA_BOOTSTRAP_SERVERS, the context of OTTLA_CONTEXT, the current context, the cluster of
`ottla up`, 127.0.0.1:9092.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.errors import LocalError
from ottla.cli.completion_values import complete_context
from ottla.cli.help import GLOBAL_OPTIONS, HelpCommand
from ottla.cli.output import FORMATS, Output

if TYPE_CHECKING:
    from ottla.admin.contexts import Context
    from ottla.admin.session import Session

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
BOOTSTRAP_VARIABLES = ("OTTLA_BOOTSTRAP", "KAFKA_BOOTSTRAP_SERVERS")
CONTEXT_VARIABLE = "OTTLA_CONTEXT"
TIMEOUT_DEFAULT = "10s"
_MISSPELT = (
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "sasl.jaas.config",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "isolation.level",
    "client.id",
)
"""Settings that are suggested instead of similar ones."""


@dataclass(frozen=True)
class GlobalOptions:
    """The global options as they were given; None if not given."""

    bootstrap: str | None = None
    context: str | None = None
    settings: tuple[str, ...] = ()
    output: str | None = None
    timeout: str | None = None

    def over(self, outer: GlobalOptions) -> GlobalOptions:
        """These options of a command, and where they are not given, those before the command."""
        return GlobalOptions(
            outer.bootstrap if self.bootstrap is None else self.bootstrap,
            self.context or outer.context,
            outer.settings + self.settings,
            self.output or outer.output,
            self.timeout or outer.timeout,
        )


@dataclass(frozen=True)
class Target:
    """The cluster that a command connects to, and where its address is from."""

    bootstrap: str
    settings: Mapping[str, str]
    source: str


def _complete_output(incomplete: str) -> list[str]:
    return [each for each in FORMATS if each.startswith(incomplete)]


Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOSTS",
        rich_help_panel=GLOBAL_OPTIONS,
        help="Bootstrap servers, HOST:PORT,...",
    ),
]
ContextName = Annotated[
    str | None,
    typer.Option(
        "--context",
        "-c",
        metavar="CONTEXT",
        rich_help_panel=GLOBAL_OPTIONS,
        autocompletion=complete_context,
        help="Name of a context, or a file with client settings.",
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        "-X",
        metavar="KEY=VALUE",
        rich_help_panel=GLOBAL_OPTIONS,
        help="Client setting, such as security.protocol=SSL. Can be repeated.",
    ),
]
OutputFormat = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="|".join(FORMATS),
        rich_help_panel=GLOBAL_OPTIONS,
        autocompletion=_complete_output,
        help="Output format.",
    ),
]
OwnBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", help="Bootstrap servers, HOST:PORT,...; by default those of the current context."
    ),
]
"""For commands without output format and time limit, which are no `AdminCommand`; see `chosen_target`."""
Timeout = Annotated[
    str | None,
    typer.Option(
        "--timeout",
        metavar="DURATION",
        rich_help_panel=GLOBAL_OPTIONS,
        help=f"Time limit of one request with all retries, {TIMEOUT_DEFAULT} by default.",
    ),
]
OnlyPartitions = Annotated[
    list[int] | None, typer.Option("--partition", "-p", help="Only this partition. Can be repeated.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from ottla import __version__

        typer.echo(f"ottla {__version__}")
        raise typer.Exit


def global_options(
    ctx: typer.Context,
    bootstrap: Bootstrap = None,
    context: ContextName = None,
    settings: Settings = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Event streaming with Kafka's protocol and Kafka's file formats."""
    ctx.obj = GlobalOptions(bootstrap, context, tuple(settings or ()), output, timeout)


def _template(
    bootstrap: Bootstrap = None,
    context: ContextName = None,
    settings: Settings = None,
    output: OutputFormat = None,
    timeout: Timeout = None,
) -> None:
    """The options that `AdminCommand` adds to each command."""


def make_options() -> list[Any]:
    """New objects of the global options."""
    app = typer.Typer(add_completion=False)
    app.command()(_template)
    return list(typer.main.get_command(app).params)


class AdminCommand(HelpCommand):
    """A command that also accepts the global options after its name. Use it as `app.command(cls=AdminCommand)`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for option in make_options():
            option.expose_value = False
            option.callback = _collect
            self.params.append(option)

    def invoke(self, ctx: Any) -> Any:
        ctx.obj = given_options(ctx).over(ctx.find_root().obj or GlobalOptions())
        return super().invoke(ctx)


_META = "ottla.cli.context.options"


def _collect(ctx: Any, option: Any, value: Any) -> Any:
    ctx.meta.setdefault(_META, {})[option.name] = value
    return value


def given_options(ctx: Any) -> GlobalOptions:
    """The global options after the name of the command."""
    given = ctx.meta.get(_META, {})
    return GlobalOptions(**{**given, "settings": tuple(given.get("settings") or ())})


# --- from options to a session


def target_of(options: GlobalOptions, environment: Mapping[str, str] | None = None) -> Target:
    """The cluster to connect to. Raise LocalError if a context or a setting is invalid."""
    from ottla.admin.contexts import ContextFolder

    known = os.environ if environment is None else environment
    folder = ContextFolder.of_user(known)
    named = options.context or known.get(CONTEXT_VARIABLE)
    settings = parse_settings(options.settings)
    if options.bootstrap is not None and not options.bootstrap.strip(" ,"):
        # A script with an unset variable must not change another cluster than it was meant for.
        raise LocalError("-b is empty: give HOST:PORT,..., or omit it for the default address")
    if options.bootstrap:
        chosen = folder.load(options.context).settings if options.context else {}
        return Target(options.bootstrap, {**chosen, **settings}, "-b")
    if options.context:
        return _of_context(folder.load(options.context), settings, "-c")
    for variable in BOOTSTRAP_VARIABLES:
        if known.get(variable):
            return Target(known[variable], settings, variable)
    if named:
        return _of_context(folder.load(named), settings, CONTEXT_VARIABLE)
    default = folder.default()
    if default is not None:
        return _of_context(default, settings, f"context {default.name}")
    return Target(BOOTSTRAP_DEFAULT, settings, "the default address")


def chosen_target(ctx: typer.Context, bootstrap: str | None) -> Target:
    """The cluster of a command with the option `OwnBootstrap`, which precedes the global options."""
    return target_of(GlobalOptions(bootstrap).over(ctx.find_root().obj or GlobalOptions()))


def _of_context(context: Context, settings: Mapping[str, str], source: str) -> Target:
    return Target(context.bootstrap, {**context.settings, **settings}, source)


def parse_settings(given: Sequence[str], option: str = "-X") -> dict[str, str]:
    """`key=value` texts of an option. Raise LocalError."""
    found = {}
    for each in given:
        key, separator, value = each.partition("=")
        if not separator or not key.strip():
            raise LocalError(f"{option}: {each!r} is not KEY=VALUE")
        found[key.strip()] = value
    return found


def report_unused(target: Target, given: Mapping[str, str]) -> None:
    """Print the settings of `-X` that have no effect: a misspelt `security.protocol` would mean no TLS."""
    if not given:
        return
    import difflib

    from ottla.client.raw.settings import unused_names

    unused = unused_names({**target.settings, "bootstrap.servers": target.bootstrap})
    for name in sorted({each.lower() for each in given} & set(unused)):
        near = difflib.get_close_matches(name, _MISSPELT, n=1, cutoff=0.8)
        if near and near[0] != name:
            hint = f"; did you mean {near[0]}?"
        elif name.startswith(("ssl.", "sasl.")):
            hint = f" with security.protocol={target.settings.get('security.protocol', 'PLAINTEXT')}"
        else:
            hint = ""
        typer.secho(f"ottla: the setting {name} has no effect{hint}", fg="yellow", err=True)


def timeout_s(options: GlobalOptions) -> float:
    """The time limit in seconds. A number without a unit is in seconds. Raise LocalError."""
    from ottla.admin.positions import parse_duration_ms

    text = (options.timeout or TIMEOUT_DEFAULT).strip()
    seconds = float(text) if text.replace(".", "", 1).isdigit() else parse_duration_ms(text) / 1000
    if seconds <= 0:
        raise LocalError(f"--timeout: {text} is not a positive duration")
    return seconds


def output_of(options: GlobalOptions) -> Output:
    """The output of a command. Raise LocalError if the format is unknown."""
    return Output(options.output or FORMATS[0])


@dataclass(frozen=True)
class Admin:
    """What a command of administration works with."""

    session: Session
    output: Output
    target: Target


@contextmanager
def administration(ctx: typer.Context) -> Iterator[Admin]:
    """A connected session and the output of a command; errors are printed as one line and set the exit code."""
    from ottla.cli.terminal import exit_on_errors

    with exit_on_errors():
        options: GlobalOptions = ctx.obj or GlobalOptions()
        output = output_of(options)
        with open_session(options) as (session, target):
            session.connect()
            yield Admin(session, output, target)


@contextmanager
def open_session(options: GlobalOptions) -> Iterator[tuple[Session, Target]]:
    """A session that is not connected yet."""
    from ottla.admin.session import Session

    target = target_of(options)
    report_unused(target, parse_settings(options.settings))
    with Session(target.bootstrap, target.settings, timeout_s=timeout_s(options)) as session:
        yield session, target
