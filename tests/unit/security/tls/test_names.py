"""Distinguished names as Java's X500Principal.getName() prints them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from ottla.security.tls.names import rfc2253

JAVA = """
import java.nio.file.*;
import javax.security.auth.x500.X500Principal;
class Names {
    public static void main(String[] files) throws Exception {
        for (String file : files)
            System.out.println(new X500Principal(Files.readAllBytes(Path.of(file))).getName());
    }
}
"""


def attribute(kind: x509.ObjectIdentifier, value: str, tag: _ASN1Type | None = None) -> x509.NameAttribute:
    return x509.NameAttribute(kind, value, tag, _validate=False)


def one(kind: x509.ObjectIdentifier, value: str, tag: _ASN1Type | None = None) -> bytes:
    return x509.Name([attribute(kind, value, tag)]).public_bytes()


NAMES = {
    "CN=alice,OU=team,O=Example Ltd,L=Bern,ST=BE,C=CH": x509.Name(
        [
            attribute(NameOID.COUNTRY_NAME, "CH"),
            attribute(NameOID.STATE_OR_PROVINCE_NAME, "BE"),
            attribute(NameOID.LOCALITY_NAME, "Bern"),
            attribute(NameOID.ORGANIZATION_NAME, "Example Ltd"),
            attribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "team"),
            attribute(NameOID.COMMON_NAME, "alice"),
        ]
    ).public_bytes(),
    "CN=a+UID=7": x509.Name(
        [
            x509.RelativeDistinguishedName(
                [attribute(NameOID.COMMON_NAME, "a"), attribute(NameOID.USER_ID, "7")]
            )
        ]
    ).public_bytes(),
    r"CN=\ a\,b\=c\+d\<e\>f\#g\;h\"i\\j\ ": one(NameOID.COMMON_NAME, ' a,b=c+d<e>f#g;h"i\\j '),
    r"CN=\ \ ": one(NameOID.COMMON_NAME, "  "),
    r"CN=a\00b": one(NameOID.COMMON_NAME, "a\0b"),
    "CN=Zoë 🚀": one(NameOID.COMMON_NAME, "Zoë 🚀"),
    "STREET=Weg 1": one(NameOID.STREET_ADDRESS, "Weg 1"),
    "DC=com": one(NameOID.DOMAIN_COMPONENT, "com", _ASN1Type.IA5String),
    "CN=org": one(NameOID.COMMON_NAME, "org", _ASN1Type.IA5String),
    r"CN=\00o\00r": one(NameOID.COMMON_NAME, "or", _ASN1Type.BMPString),
    "CN=#120131": one(NameOID.COMMON_NAME, "1", _ASN1Type.NumericString),
    "CN=#1a0131": one(NameOID.COMMON_NAME, "1", _ASN1Type.VisibleString),
    "CN=#1c0400000031": one(NameOID.COMMON_NAME, "1", _ASN1Type.UniversalString),
    "CN=é": one(NameOID.COMMON_NAME, "é", _ASN1Type.T61String),
    "DC=org": one(NameOID.DOMAIN_COMPONENT, "org", _ASN1Type.UTF8String),
    "1.2.840.113549.1.9.1=#1603614062": one(NameOID.EMAIL_ADDRESS, "a@b", _ASN1Type.IA5String),
    "2.5.4.5=#130131": one(NameOID.SERIAL_NUMBER, "1", _ASN1Type.PrintableString),
    "": x509.Name([]).public_bytes(),
}


@pytest.mark.parametrize("text", NAMES)
def test_a_name_is_printed(text: str) -> None:
    assert rfc2253(NAMES[text]) == text


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_java_prints_the_same(tmp_path: Path) -> None:
    (tmp_path / "Names.java").write_text(JAVA)
    files = []
    for number, encoded in enumerate(NAMES.values()):
        files.append(tmp_path / str(number))
        files[-1].write_bytes(encoded)
    command = ["java", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", tmp_path / "Names.java", *files]
    printed = subprocess.run(command, check=True, capture_output=True).stdout.decode()
    assert printed.split("\n")[:-1] == list(NAMES)
