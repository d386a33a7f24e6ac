"""Settings of the raw client: addresses, security, timeouts, from options with the names of librdkafka or Java.

Each setting is read from the first of its names that is given. Unknown options are ignored, as in Kafka's clients. An
invalid value raises `LocalError` with the allowed values. Settings are values: equal settings share connections
(`client.raw.cache`). Secrets are not part of their text form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base.errors import LocalError
from ottla.records.compression import CODEC_NAMES, Codec
from ottla.security.sasl.exchange import GSSAPI, MECHANISMS, OAUTHBEARER
from ottla.security.sasl.jaas import parse_jaas
from ottla.security.sasl.kerberos.credentials import SERVICE_NAME, Initiator, client_initiator
from ottla.security.sasl.oauth.endpoints import TokenEndpoint, check_url

if TYPE_CHECKING:
    from ottla.security.tls.settings import TlsSettings

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_DEFAULT_PORT = 9092
_FILES = (
    "ssl.ca.location",
    "ssl.truststore.location",
    "ssl.certificate.location",
    "ssl.keystore.location",
    "ssl.key.location",
)


@dataclass(frozen=True)
class Sasl:
    """The login of a client: a name and a password, or where it gets its tokens or tickets."""

    mechanism: str
    username: str
    password: str = field(repr=False)
    delegation_token: bool = False
    """Whether the name is the id of a delegation token and the password its HMAC."""
    tokens: TokenEndpoint | None = None
    kerberos: Initiator | None = None


@dataclass(frozen=True)
class ClientSettings:
    """All settings of a client; usually made by `from_options`."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = "ottla"
    group_id: str | None = None
    tls: TlsSettings | None = None
    sasl: Sasl | None = None
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    """The time limit of one call with all its retries."""
    connect_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    fetch_max_bytes: int = 52_428_800
    partition_fetch_bytes: int = 8 << 20
    """The Java client has 1 MiB because it fetches many partitions at once; this client fetches one at a time."""
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    read_committed: bool = False
    check_crcs: bool = True
    codec: Codec = Codec.NONE
    compression_level: int | None = None
    max_request_bytes: int = 1 << 20
    transaction_timeout_ms: int = 60_000

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> ClientSettings:
        """Read options such as `bootstrap.servers`, without the prefix `kafka.`."""
        return cls._read(_Options(options))

    @classmethod
    def _read(cls, given: _Options) -> ClientSettings:
        protocol = (given.text("security.protocol") or "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise LocalError(f"security.protocol can be {', '.join(PROTOCOLS)}, not {protocol}")
        known = {
            "client_id": given.text("client.id"),
            "group_id": given.text("group.id"),
            "request_timeout_ms": given.number("request.timeout.ms", "socket.timeout.ms"),
            "api_timeout_ms": given.number("default.api.timeout.ms", "delivery.timeout.ms"),
            "connect_timeout_ms": given.number("socket.connection.setup.timeout.ms"),
            "retry_backoff_ms": given.number("retry.backoff.ms"),
            "retry_backoff_max_ms": given.number("retry.backoff.max.ms"),
            "metadata_max_age_ms": given.number("metadata.max.age.ms"),
            "fetch_max_bytes": given.number("fetch.max.bytes"),
            "partition_fetch_bytes": given.number("max.partition.fetch.bytes", "fetch.message.max.bytes"),
            "fetch_max_wait_ms": given.number("fetch.max.wait.ms", "fetch.wait.max.ms"),
            "fetch_min_bytes": given.number("fetch.min.bytes"),
            "read_committed": _read_committed(given.text("isolation.level")),
            "check_crcs": given.flag("check.crcs"),
            "codec": _codec(given.text("compression.type", "compression.codec")),
            "compression_level": given.number("compression.level", least=-131_072),
            "max_request_bytes": given.number("max.request.size", "message.max.bytes"),
            "transaction_timeout_ms": given.number("transaction.timeout.ms"),
        }
        return cls(
            bootstrap=_servers(given.text("bootstrap.servers", "metadata.broker.list")),
            tls=_tls(given) if protocol.endswith("SSL") else None,
            sasl=_sasl(given) if protocol.startswith("SASL") else None,
            **{name: value for name, value in known.items() if value is not None},  # type: ignore[arg-type]
        )


class _Options:
    """Options by any of their names. Names are not case-sensitive, because those of Spark are not."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._given = {name.lower(): str(value) for name, value in options.items() if value is not None}
        self._asked: set[str] = set()

    @property
    def unused(self) -> list[str]:
        """The names that were given and not asked for."""
        return sorted(self._given.keys() - self._asked)

    def text(self, *names: str) -> str | None:
        self._asked.update(names)
        return next((self._given[name] for name in names if name in self._given), None)

    def number(self, *names: str, least: int = 0) -> int | None:
        text = self.text(*names)
        if text is None:
            return None
        if not re.fullmatch(r"\s*-?\d+\s*", text) or int(text) < least:
            raise LocalError(f"{names[0]} must be a whole number of at least {least}, not {text!r}")
        return int(text)

    def flag(self, *names: str) -> bool | None:
        text = self.text(*names)
        if text is None:
            return None
        if text.strip().lower() not in {"true", "false"}:
            raise LocalError(f"{names[0]} can be true or false, not {text!r}")
        return text.strip().lower() == "true"


def unused_names(options: Mapping[str, Any]) -> list[str]:
    """The options that have no effect, in lower case: unknown ones, and those of TLS and SASL if neither is used."""
    given = _Options(options)
    ClientSettings._read(given)
    return given.unused


def _servers(text: str | None) -> tuple[tuple[str, int], ...]:
    if not text or not text.strip(" ,"):
        raise LocalError("bootstrap.servers is missing: give it as host:port,host:port")
    found = []
    for server in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:\w+://)?(\[[^\]]+\]|[^:\[\]/]+)(?::(\d{1,5}))?", server)
        if match is None or int(match[2] or _DEFAULT_PORT) > 65_535:
            raise LocalError(f"bootstrap.servers has {server!r}, which is not host:port")
        found.append((match[1].strip("[]"), int(match[2] or _DEFAULT_PORT)))
    return tuple(found)


def _read_committed(text: str | None) -> bool | None:
    if text is None:
        return None
    if text not in {"read_committed", "read_uncommitted"}:
        raise LocalError(f"isolation.level can be read_committed or read_uncommitted, not {text!r}")
    return text == "read_committed"


def _codec(text: str | None) -> Codec | None:
    if text is None:
        return None
    names = {"none": Codec.NONE, **{name: codec for name, codec in CODEC_NAMES.items() if codec}}
    if text.lower() not in names:
        raise LocalError(f"compression.type can be {', '.join(names)}, not {text!r}")
    return names[text.lower()]


def _tls(given: _Options) -> TlsSettings:
    from ottla.client.raw.tls import read_tls  # reads stores: most clients do not use it

    for name in _FILES:
        if given.text(name) == "":
            raise LocalError(f"{name} is empty: give the path of a file, or omit it")
    check_certificate = given.flag("enable.ssl.certificate.verification") is not False
    return read_tls(given.text, check_certificate=check_certificate)


def _sasl(given: _Options) -> Sasl:
    mechanism = (given.text("sasl.mechanism", "sasl.mechanisms") or "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise LocalError(f"sasl.mechanism can be {', '.join(MECHANISMS)}, not {mechanism}")
    jaas, options = given.text("sasl.jaas.config"), {}
    if jaas is not None:
        try:
            options = dict(parse_jaas(jaas, mechanism).options)
        except ValueError as error:
            raise LocalError(f"sasl.jaas.config: {error}") from error
    if mechanism == OAUTHBEARER:
        return _oauth(given, options)
    if mechanism == GSSAPI:
        return _gssapi(given, options)
    username = given.text("sasl.username") or options.get("username")
    password = given.text("sasl.password") or options.get("password")
    if username is None or password is None:
        raise LocalError(
            f"{mechanism} needs sasl.username and sasl.password,"
            " or a sasl.jaas.config with username and password"
        )
    return Sasl(mechanism, username, password, options.get("tokenauth", "").lower() == "true")


def _gssapi(given: _Options, options: dict[str, str]) -> Sasl:
    from ottla.security.sasl.kerberos.library import require_gssapi  # most clients do not use it

    if (key_table := given.text("sasl.kerberos.keytab")) is not None:
        options |= {"useKeyTab": "true", "keyTab": key_table}
    if (principal := given.text("sasl.kerberos.principal")) is not None:
        options["principal"] = principal
    try:
        initiator = client_initiator(given.text(SERVICE_NAME), options)
    except ValueError as error:
        raise LocalError(f"{error}; sasl.mechanism can be {', '.join(MECHANISMS)}") from error
    require_gssapi()
    return Sasl(GSSAPI, initiator.principal or "of the ticket cache", "", kerberos=initiator)


def _oauth(given: _Options, options: Mapping[str, str]) -> Sasl:
    setting = "sasl.oauthbearer.token.endpoint.url"
    url = given.text(setting)
    if url is None:
        raise LocalError(f"OAUTHBEARER needs {setting}: an https: URL, or the file: URL of a token")
    check_url(setting, url)
    prefix = "sasl.oauthbearer.client"
    client_id = given.text(f"{prefix}.id", f"{prefix}.credentials.client.id") or options.get("clientId", "")
    secret = given.text(f"{prefix}.secret", f"{prefix}.credentials.client.secret")
    endpoint = TokenEndpoint(
        url,
        client_id,
        secret or options.get("clientSecret", ""),
        given.text("sasl.oauthbearer.scope") or options.get("scope"),
    )
    return Sasl(OAUTHBEARER, client_id, "", tokens=endpoint)
