"""Tests of the search for cycles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.testing.history.cycles import cyclic_components

NODES = "abcdefg"


def found(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    return {frozenset(component) for component in cyclic_components(edges)}


def test_a_graph_without_cycles() -> None:
    assert found({"a": {"b", "c"}, "b": {"c"}, "c": {"d"}}) == set()


def test_two_cycles_with_a_path_between_them() -> None:
    edges = {"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"e"}, "e": {"c"}}
    assert found(edges) == {frozenset("ab"), frozenset("cde")}


def test_a_long_chain_is_not_limited_by_the_stack_of_python() -> None:
    chain = {f"{number}": {f"{number + 1}"} for number in range(5_000)}
    assert found(chain) == set()
    assert found({**chain, "5000": {"0"}}) == {frozenset(f"{number}" for number in range(5_001))}


@given(
    st.dictionaries(st.sampled_from(NODES), st.sets(st.sampled_from(NODES), max_size=3), max_size=len(NODES))
)
def test_components_are_the_nodes_that_reach_each_other(edges: dict[str, set[str]]) -> None:
    def reachable(start: str) -> set[str]:
        reached: set[str] = set()
        waiting = list(edges.get(start, ()))
        while waiting:
            node = waiting.pop()
            if node not in reached:
                reached.add(node)
                waiting += edges.get(node, ())
        return reached

    reach = {node: reachable(node) for node in NODES}
    groups = {
        frozenset(
            other for other in NODES if other == node or (other in reach[node] and node in reach[other])
        )
        for node in NODES
    }
    assert found(edges) == {group for group in groups if len(group) > 1}
