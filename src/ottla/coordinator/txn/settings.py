"""Current values of the configurations of transactions."""

from __future__ import annotations

from ottla.config.broker import BrokerValues


class TxnSettings:
    """Typed access to the configurations; dynamic changes take effect at the next access."""

    __slots__ = ("_config",)

    def __init__(self, config: BrokerValues) -> None:
        self._config = config

    @property
    def max_timeout_ms(self) -> int:
        return self._config.int("transaction.max.timeout.ms")

    @property
    def timeout_check_interval_ms(self) -> int:
        return self._config.int("transaction.abort.timed.out.transaction.cleanup.interval.ms")

    @property
    def id_expiration_ms(self) -> int:
        return self._config.int("transactional.id.expiration.ms")

    @property
    def id_expiration_check_interval_ms(self) -> int:
        return self._config.int("transaction.remove.expired.transaction.cleanup.interval.ms")

    @property
    def two_phase_commit(self) -> bool:
        """Whether an external coordinator may keep transactions open (two-phase commit)."""
        return self._config.bool("transaction.two.phase.commit.enable")
