"""Keys of the exchanges in RFC 5802 (SHA-1 is not offered) and RFC 7677."""

from __future__ import annotations

import base64
import hmac

from ottla.security.scram_keys import MECHANISMS, ScramMechanism, derive_keys, salted_password

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCES = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SIGNED = f"n=user,r=rOprNGfwEbeRWgbNEkqO,{NONCES},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,{NONCES}".encode()


def test_the_keys_verify_the_exchange_of_rfc_7677() -> None:
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "pencil", SALT, 4096)
    keys = derive_keys(ScramMechanism.SCRAM_SHA_256, salted)
    server = hmac.digest(keys.server_key, SIGNED, "sha256")
    assert base64.b64encode(server) == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    signature = hmac.digest(keys.stored_key, SIGNED, "sha256")
    client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
    assert client_key == hmac.digest(salted, b"Client Key", "sha256")


def test_sizes_and_names() -> None:
    for name, size in (("SCRAM-SHA-256", 32), ("SCRAM-SHA-512", 64)):
        keys = derive_keys(MECHANISMS[name], b"salted")
        assert (len(keys.stored_key), len(keys.server_key)) == (size, size)
        assert MECHANISMS[name].sasl_name == name
    assert ScramMechanism(3) is ScramMechanism.UNKNOWN
    assert ScramMechanism(-1) is ScramMechanism.UNKNOWN
