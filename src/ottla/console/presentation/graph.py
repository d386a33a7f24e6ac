"""Layout of the graph of a pipeline: endpoints and flows in columns from left to right. Pure.

A node's column is the length of the longest path to it, so every edge leads to the right. Edges of a cycle that would
lead back are kept, and end in an earlier column.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 180, 62
GAP_X, GAP_Y = 46, 18


@dataclass(frozen=True)
class Node:
    key: str
    kind: str
    """flow, topic or table."""
    name: str
    x: int
    y: int


@dataclass(frozen=True)
class Edge:
    source: str
    target: str
    path: str
    """The curve, for an SVG path."""
    active: bool


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    width: int
    height: int


def layout(flows: Mapping[str, tuple[Sequence[str], str | None]], active: frozenset[str]) -> Graph:
    """The graph of flows, each with what it reads and writes. `active` names the flows that process records."""
    pairs: list[tuple[str, str]] = []
    for name, (reads, writes) in flows.items():
        pairs += [(each, f"flow {name}") for each in reads]
        if writes is not None:
            pairs.append((f"flow {name}", writes))
    keys = list(
        dict.fromkeys([*(f"flow {name}" for name in flows), *(key for pair in pairs for key in pair)])
    )
    columns = _columns(keys, pairs)
    rows: dict[int, int] = defaultdict(int)
    placed: dict[str, Node] = {}
    for key in sorted(keys, key=lambda each: columns[each]):
        column = columns[key]
        x, y = column * (WIDTH + GAP_X), rows[column] * (HEIGHT + GAP_Y)
        rows[column] += 1
        kind, _, name = key.rpartition(" ")
        placed[key] = Node(key, kind.split()[-1], name, x, y)
    height = max(rows.values(), default=0) * (HEIGHT + GAP_Y) - GAP_Y
    nodes = tuple(placed.values())
    edges = tuple(
        Edge(source, target, _curve(placed[source], placed[target]), bool(active & {source, target}))
        for source, target in pairs
    )
    return Graph(nodes, edges, max((node.x + WIDTH for node in nodes), default=0), max(height, 0))


def _columns(keys: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    columns = dict.fromkeys(keys, 0)
    for _ in keys:  # a path without a cycle has fewer edges than there are nodes
        for source, target in pairs:
            if columns[source] + 1 < len(keys):
                columns[target] = max(columns[target], columns[source] + 1)
    return columns


def _curve(source: Node, target: Node) -> str:
    x1, y1 = source.x + WIDTH, source.y + HEIGHT // 2
    x2, y2 = target.x, target.y + HEIGHT // 2
    middle = (x1 + x2) // 2
    return f"M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"
