"""Folder with the credentials of a secured cluster.

    ca.pem                        certificate of the authority, for clients
    ca-key.pem                    its key, which signs certificates; no broker needs it
    admin.properties              settings of clients that authenticate as the administrator (confluent-kafka, ottla)
    admin-java.properties         the same for Java clients
    add-scram                     the administrator for the first start (`ottla broker --add-scram-file`)
    console-password              password of the web console, not valid in the cluster
    node-<id>/keystore.pem        certificate and key of a node
    node-<id>/server.properties   settings of the node

Clients use the listener CLIENTS: TLS, authentication with SCRAM-SHA-512. Nodes use the listeners NODES and CONTROLLER:
TLS with certificates on both sides. Every node and the administrator are super users; all other users need ACLs.

All files are readable by their owner only. An existing folder is opened, never overwritten.
"""

from __future__ import annotations

import datetime as dt
import os
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ottla.base.errors import LocalError
from ottla.local.secure.authority import Authority

CLIENTS, NODES, CONTROLLER = "CLIENTS", "NODES", "CONTROLLER"
MECHANISM: Final = "SCRAM-SHA-512"
ADMIN: Final = "admin"
CONSOLE_PASSWORD: Final = "console-password"  # noqa: S105 - the name of a file
_PASSWORD_BYTES: Final = 24
_DIRECTORY_MODE: Final = 0o700
_FILE_MODE: Final = 0o600


@dataclass(frozen=True)
class NodePlan:
    """One node: its addresses, and the settings that have nothing to do with security."""

    node_id: int
    hosts: tuple[str, ...]
    """Names and addresses under which the node is reached, for its certificate."""
    settings: Mapping[str, str]


@dataclass(frozen=True)
class SecureFolder:
    """The files of one secured cluster."""

    path: Path

    @property
    def authority_certificate(self) -> Path:
        return self.path / "ca.pem"

    @property
    def client_settings(self) -> Path:
        return self.path / "admin.properties"

    @property
    def first_users(self) -> Path:
        """The administrator for the first start of the cluster."""
        return self.path / "add-scram"

    def keystore(self, node_id: int) -> Path:
        return self._node(node_id) / "keystore.pem"

    def server_properties(self, node_id: int) -> Path:
        return self._node(node_id) / "server.properties"

    def console_password(self) -> str:
        return (self.path / CONSOLE_PASSWORD).read_text().strip()

    def node_context(self) -> ssl.SSLContext:
        """The TLS context of a client that authenticates as the first node."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.authority_certificate)
        context.load_cert_chain(self.keystore(0))
        return context

    def read_client_settings(self) -> dict[str, str]:
        """The settings of a client that authenticates as the administrator."""
        lines = self.client_settings.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)

    @property
    def exists(self) -> bool:
        return self.authority_certificate.exists()

    def create(self, cluster: str, bootstrap: str, nodes: Sequence[NodePlan], now: dt.datetime) -> None:
        """Create the authority, the administrator and the files of all nodes. Raises LocalError."""
        if self.path.exists() and any(self.path.iterdir()):
            raise LocalError(f"{self.path} is not empty; choose another folder, or delete this one first")
        try:
            authority = Authority.create(f"{cluster} certificate authority", now)
            self.path.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
            _write(self.authority_certificate, authority.pem.certificate)
            _write(self.path / "ca-key.pem", authority.pem.key)
            self._write_users(bootstrap)
            super_users = [ADMIN, *(_common_name(node.node_id) for node in nodes)]
            for node in nodes:
                self._write_node(node, authority, super_users, now)
        except OSError as error:
            raise LocalError(
                f"cannot write {error.filename or self.path}: {error.strerror or error}"
            ) from error

    def _write_users(self, bootstrap: str) -> None:
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        _write(self.first_users, f"{MECHANISM}=[name={ADMIN},password={password}]\n")
        _write(self.path / CONSOLE_PASSWORD, secrets.token_urlsafe(_PASSWORD_BYTES) + "\n")
        shared = {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
        }
        login = "org.apache.kafka.common.security.scram.ScramLoginModule"
        _write_properties(
            self.client_settings,
            {
                **shared,
                "ssl.ca.location": str(self.authority_certificate.resolve()),
                "sasl.username": ADMIN,
                "sasl.password": password,
            },
        )
        _write_properties(
            self.path / "admin-java.properties",
            {
                **shared,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.authority_certificate.resolve()),
                "sasl.jaas.config": f'{login} required username="{ADMIN}" password="{password}";',
            },
        )

    def _write_node(
        self, node: NodePlan, authority: Authority, super_users: Sequence[str], now: dt.datetime
    ) -> None:
        self._node(node.node_id).mkdir(_DIRECTORY_MODE)
        pem = authority.issue(_common_name(node.node_id), node.hosts, now)
        _write(self.keystore(node.node_id), pem.key + pem.certificate)
        settings = {**node.settings, **self._security(node.node_id, super_users)}
        _write_properties(self.server_properties(node.node_id), settings)

    def _security(self, node_id: int, super_users: Sequence[str]) -> dict[str, str]:
        settings = {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_SSL,{NODES}:SSL,{CONTROLLER}:SSL",
            "inter.broker.listener.name": NODES,
            "controller.listener.names": CONTROLLER,
            "sasl.enabled.mechanisms": MECHANISM,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.keystore(node_id).resolve()),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority_certificate.resolve()),
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": ";".join(f"User:{name}" for name in super_users),
        }
        for listener in (NODES, CONTROLLER):
            settings[f"listener.name.{listener.lower()}.ssl.client.auth"] = "required"
        return settings

    def _node(self, node_id: int) -> Path:
        return self.path / f"node-{node_id}"


def _common_name(node_id: int) -> str:
    return f"node-{node_id}"


def _write_properties(path: Path, settings: Mapping[str, str]) -> None:
    _write(path, "".join(f"{key}={value}\n" for key, value in settings.items()))


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "w") as file:
        file.write(text)
