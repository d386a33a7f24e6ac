"""Fuzz target: any bytes as the frame of a request are decoded or refused, within the memory budget.

python fuzz/frame_decoder.py [libFuzzer options]     with atheris
pytest tests/property/test_codec_roundtrip.py        without: hypothesis feeds the same function
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from functools import cache

import ottla.wire.messages
from ottla.base.errors import RemoteProtocolError
from ottla.wire import codec, frames
from ottla.wire.schema import Message


@cache
def requests() -> dict[int, type[Message]]:
    """Every declared request by its API key."""
    found: dict[int, type[Message]] = {}
    for module in pkgutil.iter_modules(ottla.wire.messages.__path__):
        for value in vars(importlib.import_module(f"ottla.wire.messages.{module.name}")).values():
            spec = getattr(value, "SPEC", None)
            if spec is not None and spec.kind == "request":
                found[spec.api_key] = value
    return found


def decode_frame(frame: bytes) -> Message | None:
    """The request in a frame, or None if it is refused; anything else that happens is a bug."""
    try:
        header = frames.parse_request_header(frame)
        message = requests().get(header.api_key)
        if message is None or header.api_version not in message.SPEC.versions:
            return None
        budget = codec.Budget(len(frame))
        request = codec.decode(message, frame, header.api_version, budget=budget, start=header.body_start)
    except RemoteProtocolError:
        return None
    if budget.spent > budget.granted:
        raise AssertionError(f"{budget.spent} bytes spent of {budget.granted}")
    # What was read can be written, and means the same.
    again = codec.decode(message, codec.encode(request, header.api_version), header.api_version)
    if again != request:
        raise AssertionError(f"{request} was written as {again}")
    return request


def main() -> None:
    """Fuzz until stopped."""
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, decode_frame)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
