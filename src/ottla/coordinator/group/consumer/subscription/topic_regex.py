"""Regular expressions of subscriptions: validation, and matching against the existing topics.

Clients send the patterns, so they are matched by RE2: the time is linear in the length of the name for every pattern.
Patterns that need backtracking (back references, lookaround) are refused. A pattern must match the whole name. RE2 is
imported with the first pattern: with its libraries it takes 3 MB of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.image import MetadataImage

PATTERN_BYTES_MAX: Final = 1 << 20
"""The memory limit of RE2 for one pattern: nested repetitions can need a lot."""


class ResolvedRegex(NamedTuple):
    """The matching topics, the offset of the metadata image, and the time."""

    topics: frozenset[str] = frozenset()
    version: int = -1
    timestamp_ms: int = -1


def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = PATTERN_BYTES_MAX
    # By default RE2 writes invalid patterns to standard error.
    options.log_errors = False
    return re2.compile(pattern, options)


def check(pattern: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION if the pattern cannot be compiled."""
    import re2

    try:
        _compiled(pattern)
    except re2.error as error:
        reason = error.args[0] if error.args else "malformed"
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {text}.",
        ) from None


def resolve(
    patterns: Iterable[str],
    image: MetadataImage,
    now_ms: int,
    describes: Callable[[str], bool] | None = None,
) -> dict[str, ResolvedRegex]:
    """The existing topics that each pattern matches, and `describes` selects. An invalid pattern matches nothing."""
    import re2

    resolved: dict[str, ResolvedRegex] = {}
    for pattern in patterns:
        try:
            matches = _compiled(pattern).fullmatch
        except re2.error:
            topics: frozenset[str] = frozenset()
        else:
            topics = frozenset(name for name in image.topics.by_name if matches(name))
            topics = topics if describes is None else frozenset(filter(describes, topics))
        resolved[pattern] = ResolvedRegex(topics, image.offset, now_ms)
    return resolved
