"""Page Overview: brokers, topics, rates, lag and problems on one screen."""

from __future__ import annotations

from ottla.console.page import Console, Context, Page, View

TOPICS_SHOWN = GROUPS_SHOWN = 8


def context(console: Console, view: View) -> Context:
    snapshot = view.snapshot
    busiest = sorted(snapshot.user_topics, key=lambda each: (-snapshot.topic_rate(each.name), each.name))
    slowest = sorted(
        snapshot.groups, key=lambda each: (-(each.lag_seconds or 0), -(each.lag or 0), each.name)
    )
    seconds = [each.lag_seconds for each in snapshot.groups if each.lag_seconds is not None]
    return {
        "snapshot": snapshot,
        "topics": busiest[:TOPICS_SHOWN],
        "groups": slowest[:GROUPS_SHOWN],
        "lag": sum(each.lag or 0 for each in snapshot.groups),
        "lag_seconds": max(seconds, default=None),
        "bootstrap": console.settings.bootstrap,
    }


PAGE = Page("/", "overview.html", context, "overview", live=("overview_body",))
