"""Security protocols of listeners, numbered as in broker registrations."""

from __future__ import annotations

from enum import IntEnum


class SecurityProtocol(IntEnum):
    """Whether a listener uses TLS, SASL, both or neither."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
