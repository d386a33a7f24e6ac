"""Page Transactions: transactional ids, open and hanging transactions, producers of a topic; abort."""

from __future__ import annotations

import shlex

from ottla.admin.transactions import (
    ONGOING,
    HangingTransaction,
    TransactionInfo,
    TransactionListing,
    abort,
    describe,
    hanging,
    list_transactions,
    producers,
)
from ottla.base.errors import LocalError
from ottla.client.raw import ClientError
from ottla.console.page import Action, Console, Context, NotFound, Page, View

OPEN_SHOWN_MAX = 50


def context(console: Console, view: View) -> Context:
    topic = view.get("topic")
    if topic and view.snapshot.topic(topic) is None:
        raise NotFound(f"There is no topic {topic}.")
    listings = list_transactions(console.session)
    found: list[HangingTransaction] | None = None
    if view.get("hanging") == "1":
        found = hanging(console.session)
    return {
        "snapshot": view.snapshot,
        "listings": sorted(listings, key=lambda each: (each.state != ONGOING, each.transactional_id)),
        "open": open_transactions(console, listings),
        "hanging": found,
        "topic": topic,
        "producers": producers(console.session, [topic]) if topic else [],
        "ongoing": ONGOING,
        "abort_command": lambda name: shlex.join(["ottla", "transactions", "abort", name]),
        "read_only": console.settings.read_only,
        "token": console.token,
    }


def open_transactions(console: Console, listings: list[TransactionListing]) -> dict[str, TransactionInfo]:
    """The first open transactions with their partitions. One that ends meanwhile is left out."""
    found = {}
    names = [each.transactional_id for each in listings if each.state == ONGOING]
    for name in names[:OPEN_SHOWN_MAX]:
        try:
            found[name] = describe(console.session, name)
        except (LocalError, ClientError):
            continue
    return found


def run_abort(console: Console, view: View) -> str:
    name = view.get("id")
    abort(console.session, name)
    return f"Aborted the transaction of {name}"


PAGE = Page("/transactions", "transactions.html", context, "transactions", live=("transactions_body",))
ABORT = Action("/transactions/abort", run_abort)
