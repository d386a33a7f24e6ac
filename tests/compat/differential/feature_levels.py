"""Levels of features that are lowered and raised again, with the settings that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.compat.differential.settings import change, describe
from tests.compat.differential.three_nodes import ClusterPlayer
from tests.support.waiting import wait_until

ELR, MIN_ISR, BROKER_TYPE = "eligible.leader.replicas.version", "min.insync.replicas", 4
SET, DELETE = 0, 1
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
STATIC = "2"
NO_OWN: Mapping[int, str] = {}


def play(player: ClusterPlayer) -> None:
    """Without eligible leader replicas each broker may have its own min.insync.replicas; with them none has."""

    def to(level: int, kind: int, **options: Any) -> None:
        update = FeatureUpdateKey(feature=ELR, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=[update], **options)
        player.ask(f"to {level} by {kind} {options}", request, 2, [0])

    settings(player, "first", STATIC)
    to(1, SAFE_DOWNGRADE)
    to(0, SAFE_DOWNGRADE)
    settings(player, "disabled", STATIC)
    for node in (1, 2):
        request = change((BROKER_TYPE, str(node), [(MIN_ISR, SET, "1")]))
        player.ask(f"own setting of {node}", request, 1, [node])
    player.ask("no setting of all", change((BROKER_TYPE, "", [(MIN_ISR, DELETE, None)])), 1, [0])
    settings(player, "changed", None, {1: "1", 2: "1"})
    for kind in (SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        to(1, kind)
    to(1, UPGRADE, validate_only=True)
    settings(player, "not enabled", None, {1: "1", 2: "1"})
    to(1, UPGRADE)
    settings(player, "enabled", STATIC)
    player.ask("a setting of all", change((BROKER_TYPE, "", [(MIN_ISR, SET, "1")])), 1, [0])
    to(1, UPGRADE)
    settings(player, "enabled again", "1")


def settings(player: ClusterPlayer, label: str, default: str | None, own: Mapping[int, str] = NO_OWN) -> None:
    """What every node says about min.insync.replicas, once it has these settings."""
    for node in player.running:
        expected = {"": default, str(node): own.get(node) or default or STATIC}

        def reached(node: int = node, expected: Mapping[str, str | None] = expected) -> bool:
            return {name: described(player, node, name) for name in expected} == expected

        wait_until(reached, f"{label}: node {node} to have {expected}", 20)
        for name in expected:
            player.ask(f"{label}: settings of {name!r}", describe((BROKER_TYPE, name, [MIN_ISR])), 4, [node])


def described(player: ClusterPlayer, node: int, name: str) -> str | None:
    answer = player.nodes[node].quietly(describe((BROKER_TYPE, name, [MIN_ISR])), 4)
    return next((each.value for each in answer.results[0].configs), None)
