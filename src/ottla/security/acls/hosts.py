"""Addresses of clients in the form in which the hosts of ACL entries are written: that of Java.

Java prints an IPv6 address as eight groups without `::`, and an IPv4-mapped one as IPv4.
"""

from __future__ import annotations

import ipaddress


def host_text(address: str) -> str:
    """The form of an address that is compared with the host of an entry; unchanged if it is not an address."""
    plain, percent, scope = address.partition("%")
    try:
        parsed = ipaddress.ip_address(plain)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    packed = parsed.packed
    groups = (int.from_bytes(packed[at : at + 2], "big") for at in range(0, len(packed), 2))
    return ":".join(f"{group:x}" for group in groups) + percent + scope
