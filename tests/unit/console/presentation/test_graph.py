"""The layout of the graph of a pipeline."""

from __future__ import annotations

from ottla.console.presentation.graph import layout

FLOWS = {
    "scoreboard": (["topic matches"], "topic scoreboard"),
    "statistics": (["topic matches"], "topic statistics"),
    "table": (["topic scoreboard"], "delta table scoreboard"),
}


def test_every_edge_leads_to_the_right() -> None:
    graph = layout(FLOWS, frozenset({"flow table"}))
    columns = {node.key: node.x for node in graph.nodes}
    assert all(columns[edge.source] < columns[edge.target] for edge in graph.edges)
    assert [node.name for node in graph.nodes if node.x == 0] == ["matches"]
    assert [edge.target for edge in graph.edges if edge.active] == ["flow table", "delta table scoreboard"]


def test_nodes_do_not_overlap() -> None:
    graph = layout(FLOWS, frozenset())
    positions = [(node.x, node.y) for node in graph.nodes]
    assert len(set(positions)) == len(positions) == 7
    assert all(node.x < graph.width and node.y < graph.height for node in graph.nodes)
    assert {node.kind for node in graph.nodes} == {"topic", "flow", "table"}


def test_a_cycle_ends() -> None:
    graph = layout({"echo": (["topic a"], "topic a")}, frozenset())
    assert len(graph.nodes) == 2


def test_an_old_progress_file_without_endpoints_shows_its_flows() -> None:
    graph = layout({"scoreboard": ([], None)}, frozenset())
    assert [node.name for node in graph.nodes] == ["scoreboard"]
    assert layout({}, frozenset()).nodes == ()
