"""Tables of transitions: which states a machine has, which moves it may make, and what causes each.

A machine never asks "may I?" in scattered conditions: it moves through `check`, and a move that its table does
not list is a bug of ours, found at once. The diagrams in docs/STATE_MACHINES.md are made from the same tables.

A table is data and holds no state of its own: one table serves all machines of its kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from ottla.base.errors import InvariantViolation, invariant

S = TypeVar("S", bound=Enum)


class Move(NamedTuple, Generic[S]):
    """What happens, in which states it may happen, and the state that it leads to."""

    event: str
    sources: tuple[S, ...]
    target: S


class Transitions(Generic[S]):
    """The moves of one kind of machine.

    A state may move to itself only if a move says so. `start` is where a new machine stands; every other state
    must be reachable from it, so a table cannot keep a state that nothing leads to.
    """

    __slots__ = ("_allowed", "moves", "name", "start", "states")

    def __init__(self, name: str, states: type[S], start: S, moves: Iterable[Move[S]]) -> None:
        self.name = name
        self.states = states
        self.start = start
        self.moves = tuple(moves)
        self._allowed = frozenset((source, move.target) for move in self.moves for source in move.sources)
        lost = [state for state in states if state not in self._reachable()]
        invariant(not lost, f"{name}: nothing leads to {lost}")

    def allows(self, before: S, after: S) -> bool:
        """True if some event leads from `before` to `after`."""
        return (before, after) in self._allowed

    def check(self, before: S, after: S) -> None:
        """Stop if no event leads from `before` to `after`."""
        if (before, after) not in self._allowed:
            raise InvariantViolation(f"{self.name}: no event leads from {before.name} to {after.name}")

    def events(self, before: S, after: S) -> list[str]:
        """What may lead from `before` to `after`, in the order of the table."""
        return [move.event for move in self.moves if move.target == after and before in move.sources]

    def _reachable(self) -> set[S]:
        found, waiting = {self.start}, [self.start]
        while waiting:
            state = waiting.pop()
            fresh = [after for before, after in self._allowed if before == state and after not in found]
            found.update(fresh)
            waiting.extend(fresh)
        return found
