"""Values for shell completion: names of topics, groups and transactional ids of the cluster, and of contexts.

A cluster that does not respond within a second completes nothing; a completion never fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from ottla.admin.session import Session

_TIMEOUT_S = 1.0


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of topics; internal ones only after an underscore."""

    def names(session: Session) -> list[str]:
        from ottla.admin.topics import topic_names

        return topic_names(session, internal=incomplete.startswith("_"))

    return _matching(ctx, incomplete, names)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of groups."""

    def names(session: Session) -> list[str]:
        from ottla.admin.groups import list_groups

        return [each.name for each in list_groups(session)]

    return _matching(ctx, incomplete, names)


def complete_context(incomplete: str) -> list[str]:
    """Names of contexts."""
    from ottla.admin.contexts import ContextFolder

    return [each for each in ContextFolder.of_user().names() if each.startswith(incomplete)]


def complete_transaction(ctx: typer.Context, incomplete: str) -> list[str]:
    """Transactional ids."""

    def names(session: Session) -> list[str]:
        from ottla.admin.transactions import list_transactions

        return [each.transactional_id for each in list_transactions(session)]

    return _matching(ctx, incomplete, names)


def _matching(ctx: Any, incomplete: str, names: Callable[[Session], list[str]]) -> list[str]:
    from ottla.admin.session import Session
    from ottla.base.errors import OttlaError
    from ottla.cli.context import target_of

    try:
        target = target_of(options_while_completing(ctx))
        with Session(target.bootstrap, target.settings, timeout_s=_TIMEOUT_S) as session:
            session.connect()
            return [each for each in names(session) if each.startswith(incomplete)]
    except OttlaError:
        return []


def options_while_completing(ctx: Any) -> Any:
    """The global options of an incomplete command line, before and after the name of the command."""
    from ottla.cli.context import GlobalOptions, given_options

    root = ctx.find_root().params
    outer = GlobalOptions(
        root.get("bootstrap"), root.get("context"), tuple(root.get("settings") or ()), None, None
    )
    return given_options(ctx).over(outer)
