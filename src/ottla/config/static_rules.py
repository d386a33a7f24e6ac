"""Rules between the static settings of a broker; an error names the settings and what is allowed."""

from __future__ import annotations

from ottla.config.broker import BrokerConfig
from ottla.config.dynamic_rules import parse_connection_overrides
from ottla.config.key import ConfigRefused
from ottla.config.resolve import BrokerLayers, topic_defaults

_MIB = 1024 * 1024


def check_static(config: BrokerConfig) -> None:
    """Raise ConfigRefused for a combination of settings with which a broker cannot start."""
    _check_log(config)
    _check_network(config)
    _check_node(config)


def _check_log(config: BrokerConfig) -> None:
    topic = topic_defaults(BrokerLayers(config))

    def number(name: str) -> int:
        value = topic[name]
        return value if isinstance(value, int) else 0

    if number("segment.ms") < 1:
        raise ConfigRefused("log.roll.ms", "log.roll.ms or log.roll.hours: allowed: at least 1")
    if number("segment.jitter.ms") < 0:
        raise ConfigRefused("log.roll.jitter.ms", "log.roll.jitter.ms: allowed: at least 0")
    if number("retention.ms") == 0:
        text = "log.retention.ms, .minutes or .hours is 0; allowed: at least 1, or -1 for no limit"
        raise ConfigRefused("log.retention.ms", text)
    low, high = number("min.compaction.lag.ms"), number("max.compaction.lag.ms")
    if low > high:
        text = (
            f"log.cleaner.min.compaction.lag.ms ({low}) is above log.cleaner.max.compaction.lag.ms ({high})"
        )
        raise ConfigRefused("log.cleaner.min.compaction.lag.ms", text)
    buffer, threads = config.long("log.cleaner.dedupe.buffer.size"), config.int("log.cleaner.threads")
    if buffer // max(1, threads) <= _MIB:
        text = f"log.cleaner.dedupe.buffer.size={buffer}; allowed: more than 1 MiB for each cleaner thread"
        raise ConfigRefused("log.cleaner.dedupe.buffer.size", text)


def _check_network(config: BrokerConfig) -> None:
    queued, frame = config.long("queued.max.request.bytes"), config.int("socket.request.max.bytes")
    if "queued.max.request.bytes" in config.explicit and 0 < queued < frame:
        text = f"queued.max.request.bytes={queued} is below socket.request.max.bytes ({frame})"
        raise ConfigRefused("queued.max.request.bytes", text)
    overrides = parse_connection_overrides(config.str("max.connections.per.ip.overrides"))
    if config.int("max.connections.per.ip") == 0 and not overrides:
        text = "max.connections.per.ip=0 allows no connections unless max.connections.per.ip.overrides is set"
        raise ConfigRefused("max.connections.per.ip", text)


def _check_node(config: BrokerConfig) -> None:
    wait = config.int("replica.fetch.wait.max.ms")
    for name in ("replica.socket.timeout.ms", "replica.lag.time.max.ms"):
        if wait > config.int(name):
            text = f"replica.fetch.wait.max.ms={wait} is above {name} ({config.int(name)})"
            raise ConfigRefused("replica.fetch.wait.max.ms", text)
    codec = config.int("offsets.topic.compression.codec")
    if not 0 <= codec <= 4:
        text = f"offsets.topic.compression.codec={codec}; allowed: 0 to 4"
        raise ConfigRefused("offsets.topic.compression.codec", text)
