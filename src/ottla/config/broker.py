"""The static settings of one broker, from file, environment and overrides, parsed once.

Settings that change while the broker runs are in `dynamic`. The typed accessors check the type: an unknown name,
or a number that is null, is a bug in Ottla and an `InvariantViolation`.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ottla.base.errors import violated
from ottla.config.key import Value, parse
from ottla.config.keys import BROKER_KEYS


class BrokerValues:
    """Typed access to a complete set of parsed broker settings."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[builtins.str, Value]) -> None:
        self._values = values

    def value(self, name: builtins.str) -> Value:
        """The parsed value of any type; None if the setting is null."""
        return self._values[name]

    def bool(self, name: builtins.str) -> builtins.bool:
        value = self._values[name]
        return value if isinstance(value, bool) else violated(f"{name} is not a boolean")

    def int(self, name: builtins.str) -> builtins.int:
        value = self._values[name]
        if isinstance(value, bool) or not isinstance(value, int):
            violated(f"{name} is not a whole number")
        return value

    def long(self, name: builtins.str) -> builtins.int:
        return self.int(name)

    def float(self, name: builtins.str) -> builtins.float:
        value = self._values[name]
        return value if isinstance(value, float) else violated(f"{name} is not a number")

    def str(self, name: builtins.str) -> builtins.str:
        value = self._values[name]
        return value if isinstance(value, str) else violated(f"{name} is not text")

    def list(self, name: builtins.str) -> builtins.list[builtins.str]:
        value = self._values[name]
        return value if isinstance(value, list) else violated(f"{name} is not a list")


class BrokerConfig(BrokerValues):
    """The static settings of one broker. `explicit` has the settings that are set; the others are defaults.

    Unknown names stay in `explicit` and have no effect. A bad value raises ConfigRefused.
    """

    __slots__ = ("explicit",)

    def __init__(self, explicit: Mapping[builtins.str, builtins.str] | None = None) -> None:
        self.explicit: Mapping[builtins.str, builtins.str] = MappingProxyType(dict(explicit or {}))
        super().__init__(
            {
                name: parse(key, self.explicit[name]) if name in self.explicit else _DEFAULTS[name]
                for name, key in BROKER_KEYS.items()
            }
        )

    def text(self, name: builtins.str) -> builtins.str | None:
        """The setting as text: the value that is set, or the default."""
        explicit = self.explicit.get(name)
        return BROKER_KEYS[name].default if explicit is None else explicit.strip()


_DEFAULTS: Final = MappingProxyType(
    {name: None if key.default is None else parse(key, key.default) for name, key in BROKER_KEYS.items()}
)
