"""Facts about a certificate: subject, alternative names, end of validity. Read from its DER encoding."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final, NamedTuple

from ottla.security.tls.der import OCTET_STRING, SEQUENCE, DerError, Element, object_id, only
from ottla.security.tls.names import rfc2253

_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_UTC_TIME: Final = 0x17
_SUBJECT_ALT_NAME: Final = "2.5.29.17"


class Certificate(NamedTuple):
    subject: str
    """The distinguished name in the form of RFC 2253."""
    alternative_names: frozenset[bytes]
    """The DER encodings of the subject alternative names."""
    not_after: datetime


def subject_of(der: bytes) -> str:
    """The subject of a certificate, as principals contain it."""
    return rfc2253(_fields(der)[4].encoded)


def read_certificate(der: bytes) -> Certificate:
    """Read a certificate; DerError (a ValueError) if it is malformed."""
    fields = _fields(der)
    names = frozenset(
        name for extension in fields if extension.tag == _EXTENSIONS for name in _names(extension)
    )
    not_after = fields[3].children()[1]
    return Certificate(rfc2253(fields[4].encoded), names, _time(not_after))


def _fields(der: bytes) -> list[Element]:
    """Serial number, signature algorithm, issuer, validity, subject, key, and the optional fields."""
    signed = only(der, SEQUENCE).children()
    if not signed:
        raise DerError("an empty certificate")
    fields = signed[0].children()
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < 6:
        raise DerError("a certificate with missing fields")
    return fields


def _names(extensions: Element) -> list[bytes]:
    for extension in only(extensions.content, SEQUENCE).children():
        parts = extension.children()
        if object_id(parts[0].content) == _SUBJECT_ALT_NAME and parts[-1].tag == OCTET_STRING:
            return [name.encoded for name in only(parts[-1].content, SEQUENCE).children()]
    return []


def _time(element: Element) -> datetime:
    text = element.content.decode("ascii", "replace")
    if element.tag == _UTC_TIME:
        # A year of two digits is between 1950 and 2049.
        text = ("19" if text[:2] >= "50" else "20") + text
    try:
        return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise DerError(f"a certificate with the time {text!r}") from error
