"""Quotas for tests of handlers: without limits, or with those of entities."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.base.clock import Clock, SystemClock
from ottla.broker.quotas import Quotas
from ottla.config.broker import BrokerConfig
from ottla.metadata.image import MetadataImage, QuotaEntity


def make_quotas(
    limits: Mapping[QuotaEntity, Mapping[str, float]] | None = None, clock: Clock | None = None
) -> Quotas:
    quotas = Quotas(BrokerConfig({"node.id": "1"}), clock or SystemClock())
    quotas.load(MetadataImage(quotas=limits or {}))
    return quotas
