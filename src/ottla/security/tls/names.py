"""Distinguished names as text in the form of RFC 2253, exactly as Java prints them.

Kafka's principals, ACLs and mapping rules contain this text, so every character counts: the last part of the name is
first, only nine attribute types have a keyword, and values of other types or of unusual string types are hexadecimal.
"""

from __future__ import annotations

from typing import Final

from ottla.security.tls.der import SEQUENCE, Element, elements, object_id, only

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_STRING_TAGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
"""UTF8String, PrintableString, T61String, IA5String, GeneralString, BMPString. Java reads each of them as UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_BLANK: Final = " \r"


def rfc2253(name: bytes) -> str:
    """The text of a distinguished name, given its DER encoding."""
    parts = [_relative_name(part) for part in only(name, SEQUENCE).children()]
    return ",".join(reversed(parts))


def _relative_name(part: Element) -> str:
    return "+".join(_attribute(attribute) for attribute in elements(part.content))


def _attribute(attribute: Element) -> str:
    kind, value = attribute.children()
    identifier = object_id(kind.content)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _STRING_TAGS:
        return f"{keyword or identifier}=#{value.encoded.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    lead = len(text) - len(text.lstrip(_BLANK))
    trail = len(text.rstrip(_BLANK))
    escaped = []
    for position, char in enumerate(text):
        if char == "\0":
            escaped.append("\\00")
        elif char in _ESCAPED or position < lead or position >= trail:
            escaped.append(f"\\{char}")
        else:
            escaped.append(char)
    return "".join(escaped)
