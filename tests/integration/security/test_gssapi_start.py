"""A broker with GSSAPI on a machine without the package gssapi."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.local.broker_process import BrokerNotStarted, BrokerProcess

LOGIN = (
    'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/etc/k.keytab"'
    ' principal="kafka/localhost@A.TEST";'
)


def test_the_broker_does_not_start_and_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gssapi.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    settings = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": LOGIN,
    }
    with pytest.raises(BrokerNotStarted, match=r"pip install 'ottla\[gssapi\]'") as refused:
        BrokerProcess(tmp_path / "data", settings).start()
    assert "Traceback" not in str(refused.value)
