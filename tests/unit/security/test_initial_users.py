from __future__ import annotations

import base64

import pytest

from ottla.base.errors import LocalError
from ottla.security.initial_users import parse_users, user_lines
from ottla.security.scram_keys import ScramMechanism, derive_keys, salted_password

SALT = base64.b64encode(b"salt of the user").decode()


def test_a_password() -> None:
    (record,) = parse_users(["SCRAM-SHA-256=[name=alice,password=a-secret]"], lambda count: b"x" * count)
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "a-secret", b"x" * 32, 4096)
    keys = derive_keys(ScramMechanism.SCRAM_SHA_256, salted)
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)
    assert (record.salt, record.stored_key, record.server_key) == (b"x" * 32, *keys)


def test_all_parts() -> None:
    salted = base64.b64encode(b"salted").decode()
    text = f' SCRAM-SHA-512=[name="bob",iterations=8192,salt="{SALT}",saltedpassword="{salted}"] '
    (record,) = parse_users([text], lambda _: b"")
    assert (record.name, record.mechanism, record.iterations) == ("bob", 2, 8192)
    assert record.salt == b"salt of the user"
    assert (record.stored_key, record.server_key) == derive_keys(ScramMechanism.SCRAM_SHA_512, b"salted")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "alice",
        "SCRAM-SHA-256=name=alice,password=hunter2",
        "SCRAM-SHA-256=[name=alice,password=hunter2",
        "SCRAM-SHA-1=[name=alice,password=hunter2]",
        "SCRAM-SHA-256=[password=hunter2]",
        "SCRAM-SHA-256=[name=,password=hunter2]",
        "SCRAM-SHA-256=[name=alice]",
        "SCRAM-SHA-256=[name=alice,saltedpassword=aHVudGVyMg==]",
        "SCRAM-SHA-256=[name=alice,salt=hunter2!,password=hunter2]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,iterations=4095]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,iterations=16385]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,iterations=many]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,other=1]",
        "SCRAM-SHA-256=[name=alice,password=hunter2,hunter2]",
    ],
)
def test_a_bad_text_is_refused_without_its_secret(text: str) -> None:
    with pytest.raises(LocalError) as refusal:
        parse_users([text], lambda count: b"x" * count)
    assert "hunter2" not in str(refusal.value)


def test_lines_of_a_file() -> None:
    text = "# users\n\nSCRAM-SHA-256=[name=a,password=b]\r\n  SCRAM-SHA-512=[name=c,password=#d]\n"
    assert user_lines(text) == ["SCRAM-SHA-256=[name=a,password=b]", "SCRAM-SHA-512=[name=c,password=#d]"]
