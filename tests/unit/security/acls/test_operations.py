from __future__ import annotations

import pytest

from ottla.security.acls.operations import ALL_OPERATIONS, SUPPORTED, allowed_by, bits, denied_by
from ottla.security.resources import Operation, ResourceType


@pytest.mark.parametrize(
    "operation", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER, Operation.DESCRIBE]
)
def test_to_allow_an_operation_allows_to_describe(operation: Operation) -> None:
    assert allowed_by(operation) == bits([operation, Operation.DESCRIBE])


def test_to_allow_changes_of_settings_allows_to_describe_settings() -> None:
    assert allowed_by(Operation.ALTER_CONFIGS) == bits([Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS])


def test_other_operations_imply_nothing() -> None:
    assert allowed_by(Operation.CREATE) == bits([Operation.CREATE])
    assert allowed_by(Operation.CLUSTER_ACTION) == bits([Operation.CLUSTER_ACTION])


@pytest.mark.parametrize("operation", [each for each in Operation if each > Operation.ALL])
def test_to_deny_an_operation_denies_nothing_else(operation: Operation) -> None:
    assert denied_by(operation) == bits([operation])


def test_all_is_every_operation() -> None:
    every = bits(each for each in Operation if each > Operation.ALL)
    assert allowed_by(Operation.ALL) == denied_by(Operation.ALL) == ALL_OPERATIONS == every


def test_every_concrete_type_has_operations() -> None:
    assert SUPPORTED.keys() == set(ResourceType) - {ResourceType.UNKNOWN, ResourceType.ANY}
