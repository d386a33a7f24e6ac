"""Page Topics: all topics with sizes, rates and consumers; creation of a topic."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ottla.admin.topics import BROKER_DEFAULT, create_topic
from ottla.base.errors import LocalError
from ottla.console.page import Action, Console, Context, Page, View


def context(console: Console, view: View) -> Context:
    snapshot = view.snapshot
    query, show_internal = view.get("q"), view.get("internal") == "1"
    topics = [
        topic
        for topic in snapshot.topics
        if (show_internal or not topic.internal) and matches(topic.name, query)
    ]
    return {
        "snapshot": snapshot,
        "topics": topics,
        "query": query,
        "show_internal": show_internal,
        "hidden": sum(topic.internal for topic in snapshot.topics),
        "read_only": console.settings.read_only,
        "token": console.token,
    }


def matches(name: str, query: str) -> bool:
    """Whether a name contains the query, or matches it as a pattern with `*` and `?`."""
    if any(each in query for each in "*?["):
        return fnmatchcase(name.lower(), query.lower())
    return query.lower() in name.lower()


def run_create(console: Console, view: View) -> str:
    name = view.get("name")
    partitions = number(view, "partitions", BROKER_DEFAULT)
    replication = number(view, "replication", BROKER_DEFAULT)
    if not name:
        raise LocalError("The topic needs a name.")
    create_topic(console.session, name, partitions=partitions, replication_factor=replication)
    return f"Created topic {name}"


def number(view: View, field: str, default: int) -> int:
    """A number of a form; the default if the field is empty. Raises LocalError."""
    text = view.get(field)
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise LocalError(f"{field}: {text[:40]!r} is not a number") from None


PAGE = Page("/topics", "topics.html", context, "topics", live=("topics_table",))
CREATE = Action("/topics", run_create)
