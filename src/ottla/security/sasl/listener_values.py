"""Values of settings for one listener, and for one mechanism of it.

A setting is read from `listener.name.<listener>.<mechanism>.<setting>`, then `listener.name.<listener>.<setting>`, then
`<setting>`, with listener and mechanism in lower case.
"""

from __future__ import annotations

from ottla.config import BROKER_KEYS, BrokerConfig, parse
from ottla.config.key import Value


class ListenerValues:
    """Settings with their values for one listener, and for one mechanism of it."""

    def __init__(self, config: BrokerConfig, listener: str, mechanism: str | None = None) -> None:
        self._config = config
        prefix = f"listener.name.{listener.lower()}."
        self._prefixes = ([f"{prefix}{mechanism.lower()}."] if mechanism is not None else []) + [prefix]

    def value(self, setting: str) -> Value:
        for prefix in self._prefixes:
            text = self._config.explicit.get(prefix + setting)
            if text is not None:
                return parse(BROKER_KEYS[setting], text)
        return self._config.value(setting)

    def number(self, setting: str) -> int:
        value = self.value(setting)
        return value if isinstance(value, int) else 0

    def names(self, setting: str) -> list[str]:
        value = self.value(setting)
        return value if isinstance(value, list) else []

    def text(self, setting: str) -> str | None:
        value = self.value(setting)
        return value if isinstance(value, str) else None
