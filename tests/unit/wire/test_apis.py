"""Which header goes with which version."""

from __future__ import annotations

import pytest

from ottla.wire.apis import ApiKey, is_flexible, request_header_version, response_header_version
from tests.property.messages import message_classes


@pytest.mark.parametrize(
    ("key", "version", "request_version", "response_version"),
    [
        (ApiKey.PRODUCE, 8, 1, 0),
        (ApiKey.PRODUCE, 9, 2, 1),
        (ApiKey.API_VERSIONS, 2, 1, 0),
        (ApiKey.API_VERSIONS, 3, 2, 0),
        (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
        (ApiKey.DESCRIBE_CLUSTER, 0, 2, 1),
        (ApiKey.LEADER_AND_ISR, 0, 1, 0),
    ],
)
def test_header_versions(key: ApiKey, version: int, request_version: int, response_version: int) -> None:
    assert request_header_version(key, version) == request_version
    assert response_header_version(key, version) == response_version


def test_keys_have_no_gap() -> None:
    assert list(ApiKey) == list(range(93))


def test_the_table_agrees_with_the_declarations() -> None:
    found = [message.SPEC for message in message_classes() if message.SPEC.kind in {"request", "response"}]
    assert len(found) >= 44
    for spec in found:
        for version in spec.versions:
            assert is_flexible(spec.api_key, version) == (version in spec.flexible)
