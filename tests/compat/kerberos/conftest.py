"""A server of Kerberos and a broker for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.compat.kerberos.realm import Realm
from tests.support.kdc import PROGRAMS, Kdc, found_program


@pytest.fixture(scope="package")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    missing = [name for name in PROGRAMS if found_program(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)}: not installed (Debian: krb5-kdc krb5-admin-server krb5-user)")
    pytest.importorskip("gssapi", reason="the extra ottla[gssapi] is not installed")
    folder = tmp_path_factory.mktemp("realm")
    with Kdc(folder) as kdc, pytest.MonkeyPatch.context() as patch:
        for name, value in kdc.environment.items():
            patch.setenv(name, value)
        patch.setenv("JDK_JAVA_OPTIONS", f"-Djava.security.krb5.conf={folder / 'krb5.conf'}")
        yield Realm.make(kdc)


@pytest.fixture(scope="package")
def kerberos_broker(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    port = free_port()
    data = tmp_path_factory.mktemp("kerberos") / "data"
    with BrokerProcess(data, realm.broker_settings(port), port=port) as process:
        yield process
