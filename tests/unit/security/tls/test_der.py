"""DER elements, and what is refused."""

from __future__ import annotations

import pytest

from ottla.security.tls.der import SEQUENCE, DerError, elements, object_id, only


def test_elements_have_tag_content_and_encoding() -> None:
    data = bytes.fromhex("3006020101020102") + b"\x04\x81\x80" + bytes(128)
    first, second = elements(data)
    assert first.tag == SEQUENCE
    assert [child.content for child in first.children()] == [b"\x01", b"\x02"]
    assert second.content == bytes(128)
    assert second.encoded == data[8:]


@pytest.mark.parametrize("data", ["30", "3005", "30850000000001", "3080", "308201"])
def test_incomplete_elements_are_refused(data: str) -> None:
    with pytest.raises(DerError):
        list(elements(bytes.fromhex(data)))


def test_another_tag_is_refused() -> None:
    with pytest.raises(DerError, match="0x30"):
        only(b"\x02\x01\x01", SEQUENCE)
    with pytest.raises(DerError):
        only(b"", SEQUENCE)


@pytest.mark.parametrize(
    ("encoded", "text"),
    [("550403", "2.5.4.3"), ("2a864886f70d010901", "1.2.840.113549.1.9.1"), ("883703", "2.999.3")],
)
def test_object_identifiers(encoded: str, text: str) -> None:
    assert object_id(bytes.fromhex(encoded)) == text


def test_an_incomplete_object_identifier_is_refused() -> None:
    with pytest.raises(DerError):
        object_id(b"\x2a\x86")
