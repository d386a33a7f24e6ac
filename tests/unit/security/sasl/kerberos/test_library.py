"""The adapter of the package gssapi: what it says without the package, and the errors of the package.

The package is replaced, because it is optional; tests/compat has the real one.
"""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.base.errors import LocalError
from ottla.client.raw import ClientSettings
from ottla.security.sasl.kerberos.context import Context, ContextFailed
from ottla.security.sasl.kerberos.credentials import Initiator, KeyTable
from ottla.security.sasl.kerberos.library import default_realm, new_acceptor, new_initiator, require_gssapi

TABLE = KeyTable("/etc/k.keytab", "kafka/h@A.TEST")
KERBEROS_ERRORS = -1_765_328_384


class GssError(Exception):
    """An error as the package raises it, with the minor code of a number in RFC 4120."""

    def __init__(self, number: int = 60) -> None:
        super().__init__()
        self.maj_code, self.min_code = 851_968, (KERBEROS_ERRORS + number) & 0xFFFF_FFFF

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        return ["Unspecified failure", ""] if is_major else [f"minor {code}"]


class DuplicateTokenError(GssError):
    pass


class FakePackage:
    """The parts of the package that the adapter uses. A call that is in `errors` raises its error."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.errors: dict[str, GssError] = {}
        self.given: dict[str, dict[str, Any]] = {}
        module = ModuleType("gssapi")
        values: dict[str, Any] = {
            "exceptions": SimpleNamespace(GSSError=GssError, DuplicateTokenError=DuplicateTokenError),
            "MechType": SimpleNamespace(kerberos="krb5"),
            "NameType": SimpleNamespace(kerberos_principal="principal", hostbased_service="service"),
            "RequirementFlag": SimpleNamespace(mutual_authentication=2, integrity=32),
            "Name": self.name,
            "Credentials": lambda **given: self.made("credentials", given),
            "SecurityContext": lambda **given: self.made("context", given),
        }
        for name, value in values.items():
            setattr(module, name, value)
        patch.setitem(sys.modules, "gssapi", module)

    def name(self, text: str, _: str) -> Any:
        def canonicalize(_: str) -> str:
            self.raise_for("name")
            return f"{text}@A.TEST"

        return SimpleNamespace(canonicalize=canonicalize)

    def made(self, what: str, given: dict[str, Any]) -> Any:
        self.raise_for(what)
        self.given[what] = given
        return SimpleNamespace(step=lambda _: self.raise_for("step"), complete=True)

    def raise_for(self, what: str) -> None:
        if what in self.errors:
            raise self.errors[what]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> FakePackage:
    return FakePackage(monkeypatch)


def test_the_message_names_the_extra_if_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(LocalError, match=r"pip install 'ottla\[gssapi\]'"):
        require_gssapi()
    with pytest.raises(LocalError, match=r"pip install 'ottla\[gssapi\]'"):
        new_acceptor(TABLE)
    options = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
    }
    with pytest.raises(LocalError, match=r"pip install 'ottla\[gssapi\]'"):
        ClientSettings.from_options(options)


def test_an_acceptor_has_the_key_of_its_principal_only(package: FakePackage) -> None:
    assert new_acceptor(TABLE)().step(b"token") is None
    assert package.given["credentials"]["store"] == {"keytab": "/etc/k.keytab"}
    assert package.given["credentials"]["mechs"] == ["krb5"]
    assert package.given["credentials"]["usage"] == package.given["context"]["usage"] == "accept"


def test_a_missing_key_is_named(package: FakePackage) -> None:
    package.errors["credentials"] = GssError()
    with pytest.raises(
        LocalError, match=r"no key of kafka/h@A.TEST in /etc/k.keytab: Unspecified failure, minor"
    ):
        new_acceptor(TABLE)


def test_an_initiator_requires_mutual_authentication(package: FakePackage) -> None:
    new_initiator(Initiator("kafka", "ann", "/etc/k"), "host")
    assert package.given["context"]["flags"] == 34
    package.errors["credentials"] = GssError()
    with pytest.raises(ContextFailed, match="Unspecified failure"):
        new_initiator(Initiator("kafka", "ann", "/etc/k"), "host")


@pytest.mark.parametrize(
    ("error", "retriable"),
    [
        (GssError(21), True),
        (GssError(33), True),
        (GssError(34), True),
        (DuplicateTokenError(), True),
        (GssError(31), False),
        (GssError(32), False),
    ],
)
def test_which_errors_are_retriable(package: FakePackage, error: GssError, *, retriable: bool) -> None:
    context: Context = new_acceptor(TABLE)()
    package.errors["step"] = error
    with pytest.raises(ContextFailed) as failed:
        context.step(b"token")
    assert failed.value.retriable is retriable


def test_the_default_realm(package: FakePackage) -> None:
    assert default_realm() == "A.TEST"
    package.errors["name"] = GssError()
    assert default_realm() == ""
