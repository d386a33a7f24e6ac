"""Cycles of a directed graph: its strongly connected components with more than one node, by Tarjan's algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set


def cyclic_components(edges: Mapping[str, Set[str]]) -> list[list[str]]:
    """The sets of nodes of which each can be reached from each other one, if they have more than one node."""
    search = _Search(edges)
    for start in edges:
        search.visit(start)
    return search.found


class _Search:
    """A depth-first search without recursion: paths may be longer than Python's stack."""

    def __init__(self, edges: Mapping[str, Set[str]]) -> None:
        self._edges = edges
        self._index: dict[str, int] = {}
        self._lowest: dict[str, int] = {}
        self._open: dict[str, None] = {}
        """The visited nodes whose component is not complete, in the order of the visits."""
        self.found: list[list[str]] = []

    def visit(self, start: str) -> None:
        """Search from a node, unless it was visited before."""
        path = [] if start in self._index else [self._enter(start)]
        while path:
            node, targets = path[-1]
            target = next(targets, None)
            if target is None:
                path.pop()
                self._leave(node, path[-1][0] if path else None)
            elif target not in self._index:
                path.append(self._enter(target))
            elif target in self._open:
                self._lowest[node] = min(self._lowest[node], self._index[target])

    def _enter(self, node: str) -> tuple[str, Iterator[str]]:
        self._index[node] = self._lowest[node] = len(self._index)
        self._open[node] = None
        return node, iter(sorted(self._edges.get(node, ())))

    def _leave(self, node: str, parent: str | None) -> None:
        if parent is not None:
            self._lowest[parent] = min(self._lowest[parent], self._lowest[node])
        if self._lowest[node] == self._index[node]:
            component: list[str] = []
            while not component or component[-1] != node:
                component.append(self._open.popitem()[0])
            if len(component) > 1:
                self.found.append(component)
