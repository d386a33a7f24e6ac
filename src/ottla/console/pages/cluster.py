"""Page Cluster: brokers by rack, partitions by broker, changes, and actions on local brokers."""

from __future__ import annotations

from ottla.admin.topics import TopicInfo
from ottla.base.errors import LocalError
from ottla.console.broker_control import can_control
from ottla.console.page import Action, Console, Context, Page, View

PARTITIONS_SHOWN = 200


def context(console: Console, view: View) -> Context:
    snapshot = view.snapshot
    show_internal = view.get("internal") == "1"
    topics = [topic for topic in snapshot.topics if show_internal or not topic.internal]
    shown, left_out = limit(sorted(topics, key=_worst_first), PARTITIONS_SHOWN)
    return {
        "snapshot": snapshot,
        "topics": shown,
        "left_out": left_out,
        "show_internal": show_internal,
        "controlled": can_control(console.control),
        "read_only": console.settings.read_only,
        "token": console.token,
    }


def limit(topics: list[TopicInfo], partitions: int) -> tuple[list[TopicInfo], int]:
    """Whole topics up to a number of partitions, and the number of partitions that are left out."""
    shown: list[TopicInfo] = []
    used = 0
    for topic in topics:
        if used and used + len(topic.partitions) > partitions:
            continue
        shown.append(topic)
        used += len(topic.partitions)
    return shown, sum(len(topic.partitions) for topic in topics) - used


def run_broker_action(console: Console, view: View) -> str:
    """Kill, pause, stop or restart a broker of `ottla up` or `ottla demo`."""
    if console.control is None or not can_control(console.control):
        raise LocalError("only brokers of `ottla up` can be controlled, and none runs at this address")
    node_id, action = int(view.params["node_id"]), view.params["action"]
    return f"Broker {node_id}: {console.control.request(action, node_id)}"


def _worst_first(topic: TopicInfo) -> tuple[bool, bool, bool, str]:
    return (not topic.without_leader, not topic.under_replicated, topic.internal, topic.name)


PAGE = Page(
    "/cluster",
    "cluster.html",
    context,
    "cluster",
    live=("cluster_summary", "cluster_brokers", "cluster_picture", "cluster_changes"),
)
BROKER_ACTION = Action("/cluster/brokers/{node_id:int}/{action}", run_broker_action)
