"""Files and settings for brokers and clients with TLS."""

from __future__ import annotations

import ssl
from pathlib import Path

from ottla.local.broker_process import BrokerProcess
from ottla.local.ports import free_port
from tests.support.certificates import Authority, Issued


class TlsFiles:
    """An authority with certificates of a broker and a client, below one directory."""

    def __init__(self, path: Path, authority: Authority, *, client_auth: str = "none") -> None:
        self.path = path
        self.authority = authority
        self.client_auth = client_auth
        self.ca = authority.write_pem(path / "ca.pem")
        self.broker_store = authority.issue("broker").write_pem(path / "broker.pem")
        self.client_store = authority.issue("client").write_pem(path / "client.pem")

    def issue(self, name: str, issued: Issued) -> Path:
        """Write another key with its certificate."""
        return issued.write_pem(self.path / f"{name}.pem")

    def stores(self) -> dict[str, str]:
        """Settings of a broker."""
        return {
            "ssl.keystore.location": str(self.broker_store),
            "ssl.truststore.location": str(self.ca),
            "ssl.client.auth": self.client_auth,
        }

    def broker(self, name: str = "broker", **more: str) -> BrokerProcess:
        """A broker whose only listener for clients has TLS; not started yet."""
        port = free_port()
        settings = {
            "listeners": f"SSL://127.0.0.1:{port}",
            **self.stores(),
            **{key.replace("__", "."): value for key, value in more.items()},
        }
        return BrokerProcess(self.path / name, settings, port=port)

    def librdkafka(self) -> dict[str, str]:
        """Settings of a client by the names of librdkafka."""
        options = {"security.protocol": "SSL", "ssl.ca.location": str(self.ca)}
        if self.client_auth != "none":
            own = str(self.client_store)
            options |= {"ssl.certificate.location": own, "ssl.key.location": own}
        return options

    def java(self) -> dict[str, str]:
        """Settings of a client by the names of Java."""
        options = {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self.ca),
            "ssl.truststore.type": "PEM",
        }
        if self.client_auth != "none":
            options |= {"ssl.keystore.location": str(self.client_store), "ssl.keystore.type": "PEM"}
        return options

    def context(self, own: Path | None = None) -> ssl.SSLContext:
        """The context of a Python client, with the client's certificate if the broker requests one."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if own is None and self.client_auth != "none":
            own = self.client_store
        if own is not None:
            context.load_cert_chain(own)
        return context
