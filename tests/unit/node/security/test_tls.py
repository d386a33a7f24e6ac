"""TLS of a node: which listeners and connections have it, and reloads."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import structlog
from structlog.testing import capture_logs

from ottla.base.clock import SystemClock
from ottla.base.errors import LocalError
from ottla.config.resolve import BrokerLayers
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.metadata.records import ConfigRecord
from ottla.node.security.tls import NodeTls, _settings
from ottla.node.settings.config import assemble
from ottla.security.protocol import SecurityProtocol
from ottla.security.tls.endpoints import ServerTls
from ottla.security.tls.settings import ClientAuth
from ottla.testing.executor import InlineExecutor
from tests.support.certificates import Authority
from tests.support.tls import client_of, connect, server_of

AUTHORITY = Authority()
LISTENERS = "PLAINTEXT://127.0.0.1:1,SECURE://127.0.0.1:2,CONTROLLER://127.0.0.1:3"
MAP = "PLAINTEXT:PLAINTEXT,SECURE:SSL,CONTROLLER:PLAINTEXT"
OWN = "listener.name.secure.ssl.keystore.location"


class Setup:
    def __init__(self, path: Path, **more: str) -> None:
        self.path = path / "own.pem"
        AUTHORITY.issue("broker").write_pem(self.path)
        AUTHORITY.write_pem(path / "ca.pem")
        settings = {
            "listeners": LISTENERS,
            "listener.security.protocol.map": MAP,
            "ssl.keystore.location": str(self.path),
            "ssl.truststore.location": str(path / "ca.pem"),
            **{name.replace("__", "."): value for name, value in more.items()},
        }
        self.config = assemble(settings, {})
        self.image = MetadataImage()
        self.tls = NodeTls(self.config, InlineExecutor(), SystemClock(), structlog.get_logger())

    def write(self, name: str, value: str, node: str = "1") -> list[str]:
        """Write a setting of the broker, and return what is logged when the change is applied."""
        delta = MetadataDelta(self.image)
        record = ConfigRecord(resource_type=ResourceType.BROKER, resource_name=node, name=name, value=value)
        delta.replay(record)
        self.image = delta.apply(self.image.offset + 1, 1)
        with capture_logs() as logged:
            self.tls.changed(delta, self.image)
        return [f"{each['event']}: {each.get('reason', each.get('certificate'))}" for each in logged]

    def server(self) -> ServerTls:
        listeners = self.tls.listeners()
        assert listeners is not None
        assert set(listeners.servers) == {"SECURE"}
        return listeners.servers["SECURE"]


def test_only_listeners_with_tls_have_a_configuration(tmp_path: Path) -> None:
    test = Setup(tmp_path)
    connect(client_of(AUTHORITY).new_stream("localhost"), test.server().new_stream())
    assert test.tls.brokers is None, "the inter-broker listener is PLAINTEXT"
    assert test.tls.controllers is None
    plain = NodeTls(assemble({}, {}), InlineExecutor(), SystemClock(), structlog.get_logger())
    assert plain.listeners() is None


def test_connections_to_other_nodes_have_the_protocols_of_the_listeners(tmp_path: Path) -> None:
    test = Setup(
        tmp_path,
        inter__broker__listener__name="SECURE",
        listener__security__protocol__map="PLAINTEXT:PLAINTEXT,SECURE:SSL,CONTROLLER:SSL",
    )
    listeners = test.tls.listeners()
    assert listeners is not None
    for client, name in ((test.tls.brokers, "SECURE"), (test.tls.controllers, "CONTROLLER")):
        assert client is not None
        connect(client.new_stream("localhost"), listeners.servers[name].new_stream())


def test_a_key_that_other_nodes_do_not_trust_is_refused(tmp_path: Path) -> None:
    Authority("foreign").write_pem(tmp_path / "foreign.pem")
    foreign = str(tmp_path / "foreign.pem")
    with pytest.raises(LocalError, match="cannot connect to each other"):
        Setup(tmp_path, inter__broker__listener__name="SECURE", **{"ssl.truststore.location": foreign})


def test_an_error_at_the_start_names_the_listener(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"listener SECURE: ssl\.keystore\.location: cannot read"):
        Setup(tmp_path, **{"ssl.keystore.location": str(tmp_path / "absent")})


def test_the_client_auth_of_the_broker_does_not_apply_to_sasl(tmp_path: Path) -> None:
    layers = BrokerLayers(Setup(tmp_path, ssl__client__auth="required").config.broker)
    assert _settings(layers, "SECURE", SecurityProtocol.SSL).client_auth is ClientAuth.REQUIRED
    assert _settings(layers, "SECURE", SecurityProtocol.SASL_SSL).client_auth is ClientAuth.NONE
    own = Setup(tmp_path, **{"listener.name.secure.ssl.client.auth": "required"}).config.broker
    assert (
        _settings(BrokerLayers(own), "SECURE", SecurityProtocol.SASL_SSL).client_auth is ClientAuth.REQUIRED
    )


def test_a_changed_file_is_loaded_when_the_setting_is_written_again(tmp_path: Path) -> None:
    test = Setup(tmp_path)
    before = test.server().loaded
    assert test.write(OWN, str(test.path)) == [], "nothing has changed"
    AUTHORITY.issue("broker").write_pem(test.path)
    assert test.write(OWN, str(test.path)) == ["TLS is reloaded: CN=broker"]
    assert test.server().loaded != before
    AUTHORITY.issue("broker").write_pem(test.path)
    assert test.write(OWN, str(test.path), node="2") == [], "the setting of another broker"


def test_a_file_that_cannot_be_used_has_no_effect(tmp_path: Path) -> None:
    test = Setup(tmp_path)
    before = test.server().loaded
    AUTHORITY.issue("other").write_pem(test.path)
    (failed,) = test.write(OWN, str(test.path))
    assert "TLS is not reloaded" in failed
    assert "the certificate is of CN=other, the one before of CN=broker" in failed
    assert test.server().loaded is before
    (failed,) = test.write(OWN, "/absent")
    assert "cannot read /absent" in failed
    with pytest.raises(LocalError, match="cannot read /elsewhere"):
        test.tls.check({OWN: "/elsewhere"}).result()
    AUTHORITY.issue("broker").write_pem(test.path)
    test.tls.check({OWN: str(test.path)}).result()
    assert test.server().loaded is before


def test_another_name_is_used_if_settings_allow_it(tmp_path: Path) -> None:
    test = Setup(tmp_path, ssl__allow__dn__changes="true")
    AUTHORITY.issue("other").write_pem(test.path)
    assert test.write(OWN, str(test.path)) == ["TLS is reloaded: CN=other"]


def test_stored_settings_are_effective_after_a_restart(tmp_path: Path) -> None:
    test = Setup(tmp_path)
    moved = AUTHORITY.issue("moved").write_pem(tmp_path / "moved.pem")
    test.image = MetadataImage(configs={(ResourceType.BROKER, "1"): {OWN: str(moved)}})
    listeners: list[object] = []

    class Publisher:
        image = test.image
        add_listener = listeners.append

    test.tls.follow(Publisher)  # type: ignore[arg-type]
    certificate = test.server().loaded.certificate
    assert certificate is not None
    assert certificate.subject == "CN=moved"
    assert len(listeners) == 1


def test_a_connection_without_requests_accepts_any_certificate(tmp_path: Path) -> None:
    test = Setup(tmp_path)
    foreign = Authority("foreign").issue("broker")
    connect(test.tls.unchecked_clients().new_stream("elsewhere"), server_of(foreign).new_stream())


def test_an_expired_certificate_is_a_warning(tmp_path: Path) -> None:
    expired = AUTHORITY.issue("broker", ends=timedelta(days=-1)).write_pem(tmp_path / "expired.pem")
    with capture_logs() as logged:
        Setup(tmp_path, **{"ssl.keystore.location": str(expired)})
    assert any(each["log_level"] == "warning" and "has expired" in each["event"] for each in logged)
