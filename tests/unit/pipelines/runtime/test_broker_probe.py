"""An outage of the cluster is detected while it lasts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from ottla.client.raw.errors import ConnectionLost
from ottla.local.ports import free_port
from ottla.pipelines.runtime import broker_probe
from ottla.pipelines.runtime.broker_probe import BrokerProbe


class Cluster:
    """A cluster whose connections fail as often as the test wants."""

    failures: list[bool]

    def __init__(self, _: object) -> None:
        pass

    def any_connection(self) -> Cluster:
        if self.failures and self.failures.pop(0):
            raise ConnectionLost("b:1 cannot be reached")
        return self

    def request(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> Callable[..., BrokerProbe]:
    monkeypatch.setattr(broker_probe, "Cluster", Cluster)
    monkeypatch.setattr(BrokerProbe, "_run", lambda _: None)

    def make(*failures: bool) -> BrokerProbe:
        Cluster.failures = list(failures)
        return BrokerProbe("b:1", {})

    return make


def test_one_lost_connection_is_no_outage(probe: Callable[..., BrokerProbe]) -> None:
    made = probe(True, False)
    assert made._check() == "b:1 cannot be reached"
    assert made._check() is None


def test_settings_of_another_client_are_not_checked() -> None:
    made = BrokerProbe("b:1", {"kafka.security.protocol": "nonsense"})
    assert made._thread is None
    made.close()


def test_a_refused_connection_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_probe, "INTERVAL_S", 0.0)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", free_port()))  # bound, but it does not listen
        port = unused.getsockname()[1]
        made = BrokerProbe(f"127.0.0.1:{port}", {})
        try:
            pause = threading.Event()
            while made.outage is None:
                pause.wait(0.01)
            assert f"127.0.0.1:{port} cannot be reached" in made.outage
        finally:
            made.close()
