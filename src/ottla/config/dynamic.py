"""The effective settings of a running broker: static settings with the dynamic ones above them.

`update()` is called with the settings of a new metadata image; subscribers are notified of changed names when the
new values are effective. A stored value that does not parse, for example of another release, is ignored and
reported: the value of the layer below is effective.

Concurrency: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.config.broker import BrokerConfig, BrokerValues
from ottla.config.key import ConfigRefused, Scope, Value, parse
from ottla.config.keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS
from ottla.config.resolve import BrokerLayers, Texts, overlay_topic, topic_defaults

BROKER_RESOURCE: Final = 4
_KEYS: Final = {**BROKER_KEYS, **DYNAMIC_ONLY_KEYS}
_DYNAMIC_DEFAULTS: Final = {
    name: parse(key, key.default) for name, key in DYNAMIC_ONLY_KEYS.items() if key.default is not None
}
Listener = Callable[[frozenset[str]], None]


class DynamicConfig(BrokerValues):
    """Effective values of all broker settings, and the topic defaults that follow from them."""

    __slots__ = ("_listeners", "_node", "_static_values", "_stored", "_topic_defaults", "layers")

    def __init__(self, static: BrokerConfig, node_id: int) -> None:
        self.layers = BrokerLayers(static)
        self._node = str(node_id)
        self._static_values: Mapping[str, Value] = {
            **{name: static.value(name) for name in BROKER_KEYS},
            **_DYNAMIC_DEFAULTS,
        }
        self._stored: tuple[Texts, Texts] = ({}, {})
        self._topic_defaults: dict[str, Value] | None = None
        self._listeners: list[Listener] = []
        super().__init__(self._static_values)

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with the names of changed settings, for each update that changes any."""
        self._listeners.append(listener)

    def update(self, configs: Mapping[tuple[int, str], Texts]) -> list[str]:
        """Apply the settings of a metadata image; returns messages about values that are ignored."""
        stored = (configs.get((BROKER_RESOURCE, ""), {}), configs.get((BROKER_RESOURCE, self._node), {}))
        if stored == self._stored:
            return []
        self._stored = stored
        problems: list[str] = []
        default, own = (_usable(layer, problems) for layer in stored)
        self.layers = BrokerLayers(self.layers.static, default, own)
        before = self._values
        self._values = {**self._static_values, **_typed(default), **_typed(own)}
        self._topic_defaults = None
        changed = frozenset(name for name, value in self._values.items() if value != before[name])
        if changed:
            for listener in self._listeners:
                listener(changed)
        return problems

    def listener_int(self, listener: str, name: str) -> int:
        """A number that can be set for each listener, as `listener.name.<listener>.<name>`."""
        prefixed = f"listener.name.{listener.lower()}.{name}"
        layers = self.layers
        for layer in (layers.dynamic_broker, layers.dynamic_default, layers.static.explicit):
            if prefixed in layer:
                value = parse(BROKER_KEYS[name], layer[prefixed])
                if isinstance(value, int):
                    return value
        return self.int(name)

    def topic_values(self, topic: Texts) -> dict[str, Value]:
        """Typed values of all settings of a topic whose own settings are `topic`."""
        if self._topic_defaults is None:
            self._topic_defaults = topic_defaults(self.layers)
        return overlay_topic(self._topic_defaults, topic)


def _usable(stored: Texts, problems: list[str]) -> dict[str, str]:
    """The valid settings and those with unknown names, which are described; bad values are omitted."""
    usable = {}
    for name, text in stored.items():
        key = _KEYS.get(name)
        if key is not None:
            try:
                parse(key, text)
            except ConfigRefused as error:
                problems.append(f"a stored setting is ignored: {error}")
                continue
        usable[name] = text
    return usable


def _typed(texts: Texts) -> dict[str, Value]:
    typed = {}
    for name, text in texts.items():
        key = _KEYS.get(name)
        if key is not None and key.scope is not Scope.READ_ONLY:
            typed[name] = parse(key, text)
    return typed
