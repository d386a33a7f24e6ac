"""Our codec beside kio's: `python tools/measure_codec.py`. A developer's tool, never shipped. Processor time.

The message is a Metadata response of 100 topics with 10 partitions and 3 replicas each, version 12.
"""

from __future__ import annotations

import io
import subprocess
import sys
import time
import timeit
from collections.abc import Callable

from ottla.wire import codec
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

VERSION = 12
OURS = "ottla.wire.frames, ottla.wire.messages.metadata"
KIO = "kio.serial, kio.schema.metadata.v12.response"
IMPORT = """
import resource, time
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
before = resident()
import {}
grown = resident() - before
print(f"{{time.process_time() * 1000:.0f}} ms since the interpreter began, {{grown / (1 << 20):.1f}} MB more")
"""


def large_response() -> MetadataResponse:
    """What a busy cluster answers to a client that asks for everything."""
    topics = [
        MetadataResponseTopic(
            name=f"topic-{topic}",
            partitions=[
                MetadataResponsePartition(
                    partition_index=partition,
                    leader_id=1,
                    leader_epoch=3,
                    replica_nodes=[1, 2, 3],
                    isr_nodes=[1, 2, 3],
                )
                for partition in range(10)
            ],
        )
        for topic in range(100)
    ]
    return MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="h", port=9092)], topics=topics)


def best_ms(work: Callable[[], object]) -> float:
    """The least processor time of one call, in milliseconds."""
    return min(timeit.repeat(work, number=10, repeat=9, timer=time.process_time)) * 100


def import_cost(modules: str) -> str:
    """The least of five imports, each in a new interpreter."""
    command = [sys.executable, "-c", IMPORT.format(modules)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    return min(runs, key=lambda text: int(text.split(maxsplit=1)[0])).strip()


def main() -> None:
    """Measure and report."""
    from kio.schema.metadata.v12 import response as kio_response
    from kio.serial import entity_reader, entity_writer

    message = large_response()
    raw = codec.encode(message, VERSION)
    read, write = entity_reader(kio_response.MetadataResponse), entity_writer(kio_response.MetadataResponse)
    entity, _ = read(raw, 0)
    lines = [
        f"python     {import_cost('sys')}",
        f"ottla      {import_cost(OURS)}",
        f"kio        {import_cost(KIO)}",
        f"encode     ottla {best_ms(lambda: codec.encode(message, VERSION)):.2f} ms, "
        f"kio {best_ms(lambda: write(io.BytesIO(), entity)):.2f} ms",
        f"decode     ottla {best_ms(lambda: codec.decode(MetadataResponse, raw, VERSION)):.2f} ms, "
        f"kio {best_ms(lambda: read(raw, 0)):.2f} ms",
    ]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
