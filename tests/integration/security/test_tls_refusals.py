"""What a broker with TLS refuses: clients, stores and reloads."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from ottla.base.errors import ErrorCode
from ottla.local.broker_process import BrokerNotStarted, BrokerProcess
from ottla.wire.frames import request_parts
from ottla.wire.negotiation import api_versions_request
from tests.support.certificates import Authority
from tests.support.clients import create_topic, fresh
from tests.support.sniffer import Sniffer
from tests.support.tls_files import TlsFiles
from tests.support.waiting import wait_until

TIMEOUT_S = 60
AUTHORITY = Authority()
RULES = "RULE:^CN=(client|broker)$/$1/"
PHRASE = "open sesame"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"), AUTHORITY, client_auth="required")


@pytest.fixture(scope="module")
def broker(files: TlsFiles) -> Iterator[BrokerProcess]:
    with files.broker(ssl__principal__mapping__rules=RULES) as process:
        yield process


@pytest.fixture(autouse=True)
def _still_serves(broker: BrokerProcess, files: TlsFiles) -> Iterator[None]:
    """After each refusal a client with a certificate is served."""
    yield
    assert responds(broker, files.context())


def api_versions() -> bytes:
    return b"".join(request_parts(api_versions_request(), 3, 1, "test"))


def connect(broker: BrokerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), TIMEOUT_S)


def responds(broker: BrokerProcess, context: ssl.SSLContext) -> bool:
    """Whether the broker responds to a request; raises ssl.SSLError if TLS fails."""
    with context.wrap_socket(connect(broker), server_hostname="localhost") as client:
        client.sendall(api_versions())
        return len(client.recv(1 << 16)) > 4


def logged(broker: BrokerProcess, text: str) -> None:
    wait_until(lambda: text in broker.output(), f"a line with {text!r}")


def test_plaintext_to_a_tls_port(broker: BrokerProcess) -> None:
    with connect(broker) as client:
        client.sendall(api_versions())
        assert client.recv(1 << 16) == b""
    logged(broker, "the client does not use TLS")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_tls_1_1(broker: BrokerProcess) -> None:
    command = ["openssl", "s_client", "-connect", broker.bootstrap, "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]
    tried = subprocess.run(command, check=False, capture_output=True, input=b"", timeout=TIMEOUT_S)
    assert tried.returncode != 0
    assert b"alert protocol version" in tried.stderr
    logged(broker, "unsupported protocol")


def test_no_client_certificate(broker: BrokerProcess, files: TlsFiles) -> None:
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
        responds(broker, ssl.create_default_context(cafile=str(files.ca)))
    logged(broker, "peer did not return a certificate")


def test_a_certificate_of_a_foreign_authority(broker: BrokerProcess, files: TlsFiles) -> None:
    foreign = files.issue("foreign", Authority("foreign").issue("client"))
    with pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
        responds(broker, files.context(foreign))
    logged(broker, "unable to get local issuer certificate")


def test_an_expired_certificate(broker: BrokerProcess, files: TlsFiles) -> None:
    expired = files.issue("expired", AUTHORITY.issue("client", ends=timedelta(days=-1)))
    with pytest.raises(ssl.SSLError, match="EXPIRED"):
        responds(broker, files.context(expired))
    logged(broker, "certificate has expired")


def test_a_name_that_no_rule_maps(broker: BrokerProcess, files: TlsFiles) -> None:
    unmapped = files.issue("unmapped", AUTHORITY.issue("mallory"))
    assert not responds(broker, files.context(unmapped))
    logged(broker, "no rule of ssl.principal.mapping.rules matches CN=mallory")


@pytest.mark.slow
def test_a_stalled_handshake(broker: BrokerProcess, files: TlsFiles) -> None:
    stalled = [connect(broker) for _ in range(20)]
    for number, client in enumerate(stalled):
        client.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"[: number % 9])
    assert responds(broker, files.context()), "other clients do not wait"
    for client in stalled:
        assert client.recv(100) == b""
        client.close()
    logged(broker, "the TLS handshake was not completed in time")


def test_a_large_fetch_is_never_plaintext(files: TlsFiles) -> None:
    with Sniffer() as sniffer:
        process = files.broker("sniffed", advertised__listeners=f"SSL://127.0.0.1:{sniffer.port}")
        sniffer.target = process.port
        with process:
            address = f"127.0.0.1:{sniffer.port}"
            topic = create_topic(address, fresh("large"), security=files.librdkafka())
            marker = b"this text must not be visible "
            value = marker * 20_000
            producer = Producer({"bootstrap.servers": address, **files.librdkafka()})
            for _ in range(30):
                producer.produce(topic, value)
            assert producer.flush(TIMEOUT_S) == 0
            large = {"fetch.message.max.bytes": 20 << 20, "fetch.max.bytes": 40 << 20}
            consumer = Consumer(
                {
                    "bootstrap.servers": address,
                    "group.id": "g",
                    "auto.offset.reset": "earliest",
                    "receive.message.max.bytes": 50 << 20,
                    **large,
                    **files.librdkafka(),
                }
            )
            consumer.subscribe([topic])
            found: list[bytes] = []
            while len(found) < 30:
                messages = consumer.consume(30, TIMEOUT_S)
                assert messages, "records are missing"
                found += [message.value() or b"" for message in messages]
            consumer.close()
            assert found == [value] * 30
    assert len(sniffer.seen) > 30 * len(value)
    assert marker not in sniffer.seen


def served_certificate(broker: BrokerProcess, files: TlsFiles) -> bytes | None:
    with files.context().wrap_socket(connect(broker), server_hostname="localhost") as client:
        return client.getpeercert(binary_form=True)


def alter_store(broker: BrokerProcess, files: TlsFiles, path: Path) -> None:
    """Write the setting of the key store; raises KafkaException if that is refused."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, **files.librdkafka()})
    entry = ConfigEntry(
        "listener.name.ssl.ssl.keystore.location", str(path), incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)


def test_a_reload_with_another_name(broker: BrokerProcess, files: TlsFiles) -> None:
    before = served_certificate(broker, files)
    other = files.issue("other", AUTHORITY.issue("other"))
    with pytest.raises(KafkaException) as refused:
        alter_store(broker, files, other)
    assert refused.value.args[0].code() == ErrorCode.INVALID_REQUEST
    assert "the certificate is of CN=other, the one before of CN=broker" in refused.value.args[0].str()
    assert served_certificate(broker, files) == before
    # With the same name it is used, also when only the content of the file changes.
    renewed = AUTHORITY.issue("broker")
    renewed.write_pem(files.broker_store)
    alter_store(broker, files, files.broker_store)
    wait_until(lambda: served_certificate(broker, files) == renewed.der, "the new certificate")


@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_a_wrong_store_password(files: TlsFiles, kind: str) -> None:
    path = files.path / f"{kind}.store"
    issued = AUTHORITY.issue("broker")
    if kind == "PEM":
        issued.write_pem(path, PHRASE)
        wrong = {"ssl__key__password": f"not {PHRASE}"}
    else:
        issued.write_pkcs12(path, PHRASE)
        wrong = {"ssl__keystore__password": f"not {PHRASE}"}
    with pytest.raises(BrokerNotStarted) as refused:
        files.broker(f"wrong-{kind}", ssl__keystore__location=str(path), **wrong).start()
    assert "listener SSL: ssl.keystore.location" in str(refused.value)
    assert "password" in str(refused.value)
    assert PHRASE not in str(refused.value)
    assert "Traceback" not in str(refused.value)
