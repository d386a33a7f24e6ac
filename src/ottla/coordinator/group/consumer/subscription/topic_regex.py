"""Subscriptions by regular expression: checked when a member brings one, resolved against the topics there are.

Patterns come from clients, so they are matched by RE2: time is linear in the name whatever the pattern, and patterns
that would need backtracking (back references, lookaround) are refused. A pattern must match the whole name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import re2

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.image import MetadataImage

PATTERN_BYTES_MAX: Final = 1 << 20
"""What RE2 may spend on one compiled pattern: a repetition in a repetition can ask for a lot."""


class ResolvedRegex(NamedTuple):
    """The topics that matched, when, and as of which metadata."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = -1


def _compiled(pattern: str) -> Any:
    options = re2.Options()
    options.max_mem = PATTERN_BYTES_MAX
    # RE2 would otherwise write about bad patterns to standard error.
    options.log_errors = False
    return re2.compile(pattern, options)


def check(pattern: str) -> None:
    """Refuse a pattern that cannot be compiled."""
    try:
        _compiled(pattern)
    except re2.error as error:
        reason = error.args[0] if error.args else "malformed"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {text}.",
        ) from None


def resolve(patterns: Iterable[str], image: MetadataImage, now_ms: int) -> dict[str, ResolvedRegex]:
    """The topics that each pattern matches now. A pattern that cannot be compiled matches nothing."""
    resolved: dict[str, ResolvedRegex] = {}
    for pattern in patterns:
        try:
            matches = _compiled(pattern).fullmatch
        except re2.error:
            topics: frozenset[str] = frozenset()
        else:
            topics = frozenset(name for name in image.topics.by_name if matches(name))
        resolved[pattern] = ResolvedRegex(topics, image.offset, now_ms)
    return resolved
