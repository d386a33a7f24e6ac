"""Page Topic without its records: partitions, consumers, configuration, and changes of the topic."""

from __future__ import annotations

import shlex
from typing import Any

from ottla.admin.configs import alter_configs, configs
from ottla.admin.topics import add_partitions, delete_topics
from ottla.base.errors import LocalError
from ottla.console.page import Action, Console, Context, NotFound, Page, View
from ottla.console.pages.topics import number

TABS = (("partitions", "Partitions"), ("consumers", "Consumers"), ("configuration", "Configuration"))


def context(console: Console, view: View) -> Context:
    name, tab = view.params["topic"], view.params["tab"]
    topic = view.snapshot.topic(name)
    if topic is None or tab not in dict(TABS):
        raise NotFound(f"There is no topic {name}.")
    return {
        "snapshot": view.snapshot,
        "topic": topic,
        "tab": tab,
        "tabs": TABS,
        "groups": view.snapshot.consumers(name),
        "entries": configs(console.session, name) if tab == "configuration" else [],
        "show_all": view.get("all") == "1",
        "command": command,
        "read_only": console.settings.read_only,
        "token": console.token,
    }


def command(*words: Any) -> str:
    """The `ottla topics` command that does the same as a form."""
    return shlex.join(["ottla", "topics", *map(str, words)])


def run_grow(console: Console, view: View) -> str:
    name, wanted = view.params["topic"], number(view, "partitions", 0)
    add_partitions(console.session, name, wanted)
    return f"Topic {name} has {wanted} partitions now."


def run_configure(console: Console, view: View) -> str:
    name, key, value = view.params["topic"], view.get("key"), view.get("value")
    if not key:
        raise LocalError("The setting needs a name.")
    if view.get("remove"):
        alter_configs(console.session, name, delete=[key])
        return f"Topic {name}: {key} has its default again."
    alter_configs(console.session, name, assign={key: value})
    return f"Topic {name}: {key}={value}"


def run_delete(console: Console, view: View) -> str:
    delete_topics(console.session, [view.params["topic"]])
    return f"Deleted topic {view.params['topic']}"


PAGE = Page("/topics/{topic}/{tab}", "topic.html", context, "topics", live=("topic_body",))
GROW = Action("/topics/{topic}/grow", run_grow)
CONFIGURE = Action("/topics/{topic}/configure", run_configure)
DELETE = Action("/topics/{topic}/delete", run_delete)
