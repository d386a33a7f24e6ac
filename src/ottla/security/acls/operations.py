"""Sets of operations as bit fields: bit n is the operation with number n, as in responses that list operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ottla.security.resources import Operation, ResourceType

NO_OPERATIONS: Final = 0
ALL_OPERATIONS: Final = sum(
    1 << each for each in Operation if each not in (Operation.UNKNOWN, Operation.ANY, Operation.ALL)
)


def bits(operations: Iterable[int]) -> int:
    """The bit field of some operations."""
    field = 0
    for operation in operations:
        field |= 1 << operation
    return field


_DESCRIBE: Final = bits([Operation.DESCRIBE])
_IMPLIED: Final[Mapping[int, int]] = MappingProxyType(
    {
        Operation.READ: _DESCRIBE,
        Operation.WRITE: _DESCRIBE,
        Operation.DELETE: _DESCRIBE,
        Operation.ALTER: _DESCRIBE,
        Operation.ALTER_CONFIGS: bits([Operation.DESCRIBE_CONFIGS]),
    }
)

SUPPORTED: Final[Mapping[ResourceType, int]] = MappingProxyType(
    {
        ResourceType.TOPIC: bits(
            [
                Operation.READ,
                Operation.WRITE,
                Operation.CREATE,
                Operation.DELETE,
                Operation.ALTER,
                Operation.DESCRIBE,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
            ]
        ),
        ResourceType.GROUP: bits(
            [
                Operation.READ,
                Operation.DELETE,
                Operation.DESCRIBE,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
            ]
        ),
        ResourceType.CLUSTER: bits(
            [
                Operation.CREATE,
                Operation.ALTER,
                Operation.DESCRIBE,
                Operation.CLUSTER_ACTION,
                Operation.DESCRIBE_CONFIGS,
                Operation.ALTER_CONFIGS,
                Operation.IDEMPOTENT_WRITE,
            ]
        ),
        ResourceType.TRANSACTIONAL_ID: bits(
            [Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT]
        ),
        ResourceType.DELEGATION_TOKEN: bits([Operation.DESCRIBE]),
        ResourceType.USER: bits([Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS]),
    }
)
"""The operations that exist for each type of resource."""


def denied_by(operation: int) -> int:
    """What an entry that denies `operation` denies: that operation, or all of them."""
    return ALL_OPERATIONS if operation == Operation.ALL else 1 << operation


def allowed_by(operation: int) -> int:
    """What an entry that allows `operation` allows: it, all, or it and the describing operation that it implies."""
    return denied_by(operation) | _IMPLIED.get(operation, NO_OPERATIONS)
