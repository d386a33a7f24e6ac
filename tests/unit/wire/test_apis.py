"""The table of APIs and of their flexible versions."""

from __future__ import annotations

from ottla.wire.apis import ApiKey, is_flexible
from tests.property.messages import message_classes


def test_keys_have_no_gap() -> None:
    assert list(ApiKey) == list(range(93))


def test_the_table_agrees_with_the_declarations() -> None:
    found = [message.SPEC for message in message_classes() if message.SPEC.kind in {"request", "response"}]
    assert len(found) >= 44
    for spec in found:
        for version in spec.versions:
            assert is_flexible(spec.api_key, version) == (version in spec.flexible)
