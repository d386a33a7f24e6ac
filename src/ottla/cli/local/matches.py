"""`ottla matches`: generate basketball matches into a topic, for the scoreboard or as load."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.base.rng import Random, system_random
from ottla.cli.context import OwnBootstrap, chosen_target
from ottla.cli.help import Application, examples
from ottla.cli.terminal import report_errors, stop_on_signals

app = Application(help="Generate basketball matches into a topic.", no_args_is_help=True)


@app.callback()
def matches() -> None:
    """Generate basketball matches into a topic."""


@app.command(
    epilog=examples(
        "ottla matches play --speed 60",
        "ottla matches play --matches 8 --speed 60 --seed 7 --late 0.1",
        "ottla matches play --matches 50 --rate 5000 --rounds 0",
        "ottla matches play --bootstrap 127.0.0.1:9092 --topic matches --speed 0",
    )
)
def play(
    ctx: typer.Context,
    bootstrap: OwnBootstrap = None,
    topic: Annotated[str, typer.Option(help="Topic for the events. The key is the match.")] = "matches",
    count: Annotated[int, typer.Option("--matches", min=1, help="Number of parallel matches.")] = 3,
    rounds: Annotated[int, typer.Option(min=0, help="Number of rounds; 0 means endless.")] = 1,
    speed: Annotated[
        float, typer.Option(min=0, help="Speed factor: 1 is real time, 0 is as fast as possible.")
    ] = 1.0,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Events per second; overrides --speed.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same matches.")] = None,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, help="Share of events that are sent twice.")
    ] = 0.01,
    late: Annotated[float, typer.Option(min=0, max=1, help="Share of events that are sent late.")] = 0.02,
) -> None:
    """Play matches until they end, or until Ctrl-C or SIGTERM.

    All events that were sent are delivered before the command ends.
    """
    from confluent_kafka import KafkaException

    from ottla.pipelines.declare import topic as declared
    from ottla.pipelines.io.topics import connector_options, create_missing
    from ottla.scoreboard.feed import DeliveryFailed, Feed
    from ottla.scoreboard.generator import FASTEST, at_rate, disturbed, faster, season

    stop = threading.Event()
    chosen = system_random().getrandbits(32) if seed is None else seed
    with report_errors() as console:
        target = chosen_target(ctx, bootstrap)
        create_missing(
            target.bootstrap,
            [declared(topic, partitions=3)],
            connector_options(target.settings),
            console.print,
        )
        origin_ms = SystemClock().now_ms()
        events = season(count, origin_ms, chosen, rounds=rounds or None)
        if speed and rate is None:
            events = faster(events, origin_ms, speed)
        else:
            events = at_rate(events, origin_ms, rate or FASTEST)
        arrivals = disturbed(events, Random(f"{chosen}/network"), duplicates=duplicates, late=late)
        try:
            feed = Feed(target.bootstrap, topic, target.settings)
        except KafkaException as error:
            raise LocalError(f"librdkafka does not accept the settings: {error.args[0].str()}") from error
        title = f"{count} matches into topic {topic}, seed {chosen}"
        try:
            with console.status(title) as shown, stop_on_signals(stop, console):
                try:
                    feed.play(
                        arrivals,
                        stop,
                        pace=rate or ("time" if speed else None),
                        on_sent=lambda sent: shown.update(f"{title}: {sent} events"),
                    )
                except KeyboardInterrupt:
                    feed.flush()
        except DeliveryFailed as error:
            raise LocalError(str(error)) from error
        console.print(f"{feed.sent} events sent, seed {chosen}", highlight=False)
