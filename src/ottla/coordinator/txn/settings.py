"""The settings of transactions, read where they are in force at the moment of asking."""

from __future__ import annotations

from ottla.config.broker import BrokerValues


class TxnSettings:
    """Typed access by meaning; `config` follows changes made while the broker runs."""

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
        """Whether an outside coordinator may hold transactions open."""
        return self._config.bool("transaction.two.phase.commit.enable")
