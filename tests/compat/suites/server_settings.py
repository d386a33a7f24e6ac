"""The settings with which the fixtures of client test suites start a server, as Ottla reads them.

Different from the file of the fixture are only: the address (127.0.0.1 instead of all addresses), the login
configuration (`sasl.jaas.config` instead of a file of the JVM), the URLs that the JVM allows; left out are Kerberos
and tokens without a signature.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_MODULE = re.compile(r'\S+\.(\w+)LoginModule\s+required(?:"[^"]*"|[^";])*;')
_MECHANISMS = {"Plain": ("PLAIN",), "Scram": ("SCRAM-SHA-256", "SCRAM-SHA-512")}
_LOGIN_FILE = "java.security.auth.login.config"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_REFUSED = {"sasl.enabled.mechanisms": ("GSSAPI",)}
_KEYS = "sasl.oauthbearer.jwks.endpoint.url"
_USER = re.compile(r"name=([^,\]]+)")


@dataclass(frozen=True)
class Server:
    """A server.properties file of a fixture."""

    path: Path
    settings: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Server:
        lines = (line.strip() for line in path.read_text().splitlines())
        pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
        return cls(path, {name.strip(): value.strip() for name, _, value in pairs})

    @property
    def users(self) -> Path:
        """The users of `kafka-storage format --add-scram`."""
        return self.path.with_suffix(".users")

    def store_users(self, arguments: list[str]) -> None:
        given = [arguments[place + 1] for place, word in enumerate(arguments) if word == "--add-scram"]
        self.users.touch(0o600)
        self.users.write_text("".join(f"{user}\n" for user in given))

    def arguments(self, java_options: str) -> list[str]:
        """The arguments of `ottla broker`."""
        options = dict(option[2:].split("=", 1) for option in java_options.split() if "=" in option)
        settings = self.settings | self._logins(options.get(_LOGIN_FILE))
        settings["listeners"] = settings["listeners"].replace("0.0.0.0", "127.0.0.1")  # noqa: S104 - replaced
        if _ALLOWED_URLS in options:
            settings[_ALLOWED_URLS] = options[_ALLOWED_URLS]
        for name, refused in _REFUSED.items():
            if name in settings:
                settings[name] = ",".join(each for each in settings[name].split(",") if each not in refused)
        settings |= self._without_unsigned_tokens(settings)
        written = self.path.with_suffix(".ottla.properties")
        written.touch(0o600)
        written.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return [
            "--config",
            str(written),
            *(["--add-scram-file", str(self.users)] if self.users.exists() else []),
        ]

    def _sasl_listeners(self) -> list[str]:
        protocols = dict(
            each.split(":") for each in self.settings["listener.security.protocol.map"].split(",")
        )
        names = [each.split(":")[0] for each in self.settings["listeners"].split(",")]
        return [name.lower() for name in names if protocols[name].startswith("SASL")]

    def _without_unsigned_tokens(self, settings: dict[str, str]) -> dict[str, str]:
        """No OAUTHBEARER on listeners without keys: Kafka accepts tokens without a signature there."""
        mechanisms = settings.get("sasl.enabled.mechanisms", "").split(",")
        kept = ",".join(each for each in mechanisms if each != "OAUTHBEARER")
        return {
            f"listener.name.{name}.sasl.enabled.mechanisms": kept
            for name in self._sasl_listeners()
            if "OAUTHBEARER" in mechanisms and f"listener.name.{name}.oauthbearer.{_KEYS}" not in settings
        }

    def _logins(self, file: str | None) -> dict[str, str]:
        if file is None:
            return {}
        modules = {found[1]: " ".join(found[0].split()) for found in _MODULE.finditer(Path(file).read_text())}
        return {
            f"listener.name.{name}.{mechanism.lower()}.sasl.jaas.config": login
            for name in self._sasl_listeners()
            for module, login in modules.items()
            for mechanism in _MECHANISMS.get(module, ())
        }

    def ready_lines(self) -> list[str]:
        """What Kafka logs when a server has started and has its first users."""
        node = self.settings.get("node.id", self.settings.get("broker.id"))
        started = [f"[KafkaRaftServer nodeId={node}] Kafka Server started"]
        users = _USER.findall(self.users.read_text()) if self.users.exists() else []
        return started + [
            f"Replayed UserScramCredentialRecord creating new entry for {name}" for name in users
        ]
