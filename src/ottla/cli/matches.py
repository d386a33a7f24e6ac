"""`ottla matches`: play basketball matches into a topic, for the scoreboard or for load."""

from __future__ import annotations

import threading
from typing import Annotated

import typer

from ottla.base.clock import SystemClock
from ottla.base.rng import Random, system_random
from ottla.cli.terminal import examples, refusals, stopping

app = typer.Typer(help="Play basketball matches into a topic.", no_args_is_help=True)


@app.callback()
def matches() -> None:
    """Play basketball matches into a topic."""


@app.command(
    epilog=examples(
        "ottla matches play --speed 60",
        "ottla matches play --matches 8 --speed 60 --seed 7 --late 0.1",
        "ottla matches play --matches 50 --rate 5000 --rounds 0",
        "ottla matches play --bootstrap 127.0.0.1:9092 --topic matches --speed 0",
    )
)
def play(
    bootstrap: Annotated[str, typer.Option(help="Brokers to begin with.")] = "127.0.0.1:9092",
    topic: Annotated[str, typer.Option(help="Where the events go, keyed by match.")] = "matches",
    count: Annotated[int, typer.Option("--matches", min=1, help="How many at a time.")] = 3,
    rounds: Annotated[int, typer.Option(min=0, help="How many rounds; 0 goes on for ever.")] = 1,
    speed: Annotated[float, typer.Option(min=0, help="1 is real time; 0: as fast as possible.")] = 1.0,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Events a second, whatever their times.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed plays the same matches.")] = None,
    duplicates: Annotated[float, typer.Option(min=0, max=1, help="Share that arrives twice.")] = 0.01,
    late: Annotated[float, typer.Option(min=0, max=1, help="Share that arrives late.")] = 0.02,
) -> None:
    """Play matches until they end, or until Ctrl-C or SIGTERM; what was sent is delivered before the end."""
    from ottla.pipelines.declare import topic as declared
    from ottla.pipelines.feed import Feed
    from ottla.pipelines.generator import FASTEST, disturbed, evened, hastened, season
    from ottla.pipelines.topics import create_missing

    clock, stop = SystemClock(), threading.Event()
    chosen = system_random().getrandbits(32) if seed is None else seed
    with refusals() as console:
        create_missing(bootstrap, [declared(topic, partitions=3)], {})
        origin_ms = clock.now_ms()
        events = season(count, origin_ms, chosen, rounds=rounds or None)
        if speed and rate is None:
            events = hastened(events, origin_ms, speed)
        else:
            events = evened(events, origin_ms, rate or FASTEST)
        arrivals = disturbed(events, Random(f"{chosen}/network"), duplicates=duplicates, late=late)
        feed = Feed(bootstrap, topic, clock)
        words = f"{count} matches into topic {topic}, seed {chosen}"
        with console.status(words) as shown, stopping(stop, console):
            try:
                feed.play(
                    arrivals,
                    stop,
                    pace=rate or ("time" if speed else None),
                    told=lambda sent: shown.update(f"{words}: {sent} events"),
                )
            except KeyboardInterrupt:
                feed.flush()
        console.print(f"{feed.sent} events sent, seed {chosen}", highlight=False)
