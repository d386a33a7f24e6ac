"""Rules for topic names, and the names of internal topics.

Topic names become directory names, so this check also keeps the files of a topic inside its log directory.
"""

from __future__ import annotations

import re
from typing import Final

from ottla.base.errors import ApiError, ErrorCode

NAME_LENGTH_MAX: Final = 249
GROUP_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_TOPIC: Final = "__share_group_state"
INTERNAL_TOPICS: Final = frozenset({GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC})

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise ApiError INVALID_TOPIC_EXCEPTION if the name is not a valid topic name."""
    if not name:
        raise _invalid("a topic needs a name")
    if name in (".", ".."):
        raise _invalid(f"{name!r} is not a valid topic name")
    if len(name) > NAME_LENGTH_MAX:
        raise _invalid(f"a name of {len(name)} characters is longer than {NAME_LENGTH_MAX}")
    if not _LEGAL.fullmatch(name):
        raise _invalid(f"{name!r} has other characters than ASCII letters, digits, '.', '_' and '-'")


def collision_key(name: str) -> str | None:
    """The metric name of a topic, in which '.' and '_' are equal; None if the name cannot collide."""
    return name.replace(".", "_") if "." in name or "_" in name else None


def _invalid(text: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, text)
