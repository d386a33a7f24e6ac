"""Handle many records at once, each key in order: an order is confirmed by a service that takes 10 ms to answer.

    python examples/parallel_consumer.py localhost:9092 orders

Any Kafka cluster will do. Ctrl-C ends it: what was read is finished and committed.
"""

from __future__ import annotations

import signal
import sys
import threading

from confluent_kafka import Message

from ottla.client.parallel import Options, ParallelConsumer, RetryPolicy, Unprocessable

SERVICE_S = 0.010


def confirm(message: Message) -> None:
    """Runs in up to 200 threads at once, never in two for the same key."""
    if not message.value():
        raise Unprocessable("an order without content")  # to the dead letters, without another attempt
    threading.Event().wait(SERVICE_S)  # stands for the service; an exception would bring the record again


def main(bootstrap: str, topic: str) -> None:
    settings = {"bootstrap.servers": bootstrap, "group.id": "confirmations", "auto.offset.reset": "earliest"}
    options = Options(
        workers=200,
        retry=RetryPolicy(attempts_max=5, delay_first_s=0.5),
        dead_letter_topic=f"{topic}.dead",
    )
    consumer = ParallelConsumer(settings, [topic], confirm, options)
    signal.signal(signal.SIGINT, lambda *_: consumer.stop(drain=True))
    consumer.run()
    progress = consumer.progress()
    confirmed = progress.done - progress.dead_lettered
    sys.stdout.write(f"{confirmed} orders confirmed, {progress.dead_lettered} to {topic}.dead\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python parallel_consumer.py BOOTSTRAP_SERVERS TOPIC")
    main(*sys.argv[1:])
