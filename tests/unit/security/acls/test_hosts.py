from __future__ import annotations

import pytest

from ottla.security.acls.hosts import host_text


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("2001:0DB8::00A0", "2001:db8:0:0:0:0:0:a0"),
        ("::ffff:192.168.1.1", "192.168.1.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("not an address", "not an address"),
    ],
)
def test_addresses_have_the_form_of_java(address: str, text: str) -> None:
    assert host_text(address) == text
