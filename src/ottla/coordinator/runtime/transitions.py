"""Transition tables: the states of a state machine, its allowed transitions, and the event of each transition.

Code that changes a state calls `check`. A transition that is not in the table raises InvariantViolation. The diagrams
in docs/STATE_MACHINES.md are generated from the same tables.

A table is immutable data: one table serves all state machines of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from ottla.base.errors import InvariantViolation, invariant

S = TypeVar("S", bound=Enum)


class Move(NamedTuple, Generic[S]):
    """An event, the states in which it can occur, and the state after it."""

    event: str
    sources: tuple[S, ...]
    target: S


class Transitions(Generic[S]):
    """The transitions of one kind of state machine.

    A transition from a state to itself must be listed, too. `start` is the initial state; every other state must be
    reachable from it.
    """

    __slots__ = ("_allowed", "moves", "name", "start", "states")

    def __init__(self, name: str, states: type[S], start: S, moves: Iterable[Move[S]]) -> None:
        self.name = name
        self.states = states
        self.start = start
        self.moves = tuple(moves)
        self._allowed = frozenset((source, move.target) for move in self.moves for source in move.sources)
        lost = [state for state in states if state not in self._reachable()]
        invariant(not lost, f"{name}: no transition leads to {lost}")

    def allows(self, before: S, after: S) -> bool:
        """True if some event leads from `before` to `after`."""
        return (before, after) in self._allowed

    def check(self, before: S, after: S) -> None:
        """Raise InvariantViolation if no event leads from `before` to `after`."""
        if (before, after) not in self._allowed:
            raise InvariantViolation(f"{self.name}: no event leads from {before.name} to {after.name}")

    def events(self, before: S, after: S) -> list[str]:
        """The events that lead from `before` to `after`, in the order of the table."""
        return [move.event for move in self.moves if move.target == after and before in move.sources]

    def _reachable(self) -> set[S]:
        found, waiting = {self.start}, [self.start]
        while waiting:
            state = waiting.pop()
            fresh = [after for before, after in self._allowed if before == state and after not in found]
            found.update(fresh)
            waiting.extend(fresh)
        return found
