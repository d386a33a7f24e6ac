"""Subject, alternative names and end of validity of a certificate."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography.x509.oid import NameOID

from ottla.security.tls.certificates import read_certificate, subject_of
from ottla.security.tls.der import DerError
from tests.support.certificates import Authority, name


def test_the_fields_of_a_certificate() -> None:
    issued = Authority().issue(
        name("alice", (NameOID.ORGANIZATION_NAME, "Example")), ("a.example", "10.0.0.1")
    )
    found = read_certificate(issued.der)
    assert found.subject == subject_of(issued.der) == "CN=alice,O=Example"
    assert found.alternative_names == {b"\x82\x09a.example", b"\x87\x04\x0a\x00\x00\x01"}
    assert found.not_after == issued.certificate.not_valid_after_utc


def test_times_after_2049_have_four_digits() -> None:
    ends = datetime(2060, 1, 2, 3, 4, 5, tzinfo=UTC) - datetime.now(UTC)
    found = read_certificate(Authority().issue("a", (), ends=ends).der)
    assert abs(found.not_after - datetime(2060, 1, 2, 3, 4, 5, tzinfo=UTC)) < timedelta(minutes=1)
    assert found.alternative_names == frozenset()


@pytest.mark.parametrize("data", [b"", b"\x30\x00", b"\x30\x04\x30\x02\x02\x00", b"nonsense"])
def test_malformed_certificates_are_refused(data: bytes) -> None:
    with pytest.raises(DerError):
        read_certificate(data)
