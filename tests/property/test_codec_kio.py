"""Our codec beside kio, another implementation of the same definitions: it reads and writes the same bytes.

kio has a module per version and importing them is slow, so of each message the first version, the first
flexible and the last are compared; `test_codec_kafka` compares all of them with Kafka itself.
"""

from __future__ import annotations

import importlib
import io
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tools.declare_messages import snake_case

from ottla.base.errors import ErrorCode
from ottla.wire import codec
from ottla.wire.schema import Field, Message
from tests.property.messages import instances, message_classes


def versions_to_compare() -> list[tuple[type[Message], int]]:
    return [
        (message, version)
        for message in message_classes()
        if message.SPEC.kind in {"request", "response"}
        for version in sorted(
            {message.SPEC.versions[0], message.SPEC.versions[-1], message.SPEC.flexible.start}
            & set(message.SPEC.versions)
        )
    ]


def kio_accepts(field: Field) -> st.SearchStrategy[Any] | None:
    """kio refuses error codes it does not know, and makes dates of some times."""
    if field.name.endswith("error_code"):
        return st.sampled_from(ErrorCode).map(int)
    if field.name == "log_append_time_ms":
        return st.integers(-1, 2**41)
    if field.name == "transaction_start_time_ms" or field.name.endswith("timestamp_ms"):
        return st.integers(0, 2**41)
    if field.name in {"session_lifetime_ms", "max_lifetime_ms", "retention_time_ms"} or field.name.endswith(
        "period_ms"
    ):
        return st.integers(0, 2**31)
    return None


def kio_class(message: type[Message], version: int) -> Any:
    api = snake_case(message.__name__.removesuffix("Request").removesuffix("Response"))
    module = importlib.import_module(f"kio.schema.{api}.v{version}.{message.SPEC.kind}")
    return getattr(module, message.__name__)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("message", "version"), versions_to_compare(), ids=lambda value: getattr(value, "__name__", value)
)
@settings(
    max_examples=10,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_kio_reads_what_we_write_and_writes_the_same(
    message: type[Message], version: int, data: st.DataObject
) -> None:
    from kio.serial import entity_reader, entity_writer

    entity = kio_class(message, version)
    raw = codec.encode(data.draw(instances(message, version, kio_accepts)), version)

    read, size = entity_reader(entity)(raw, 0)
    written = io.BytesIO()
    entity_writer(entity)(written, read)

    assert size == len(raw)
    assert written.getvalue() == raw
