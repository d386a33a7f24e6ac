"""Regular expressions of topics: RE2, whole names, no backtracking."""

from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.group.consumer.subscription.topic_regex import ResolvedRegex, check, resolve
from tests.support.metadata import one_node


def found(pattern: str, *topics: str) -> set[str]:
    return set(resolve([pattern], one_node(*topics), 7)[pattern].topics)


def test_a_pattern_matches_whole_names() -> None:
    assert found("a", "a", "ab", "ba") == {"a"}
    assert found("a.*", "a", "ab", "ba") == {"a", "ab"}
    assert found("a|b.", "a", "b", "bc") == {"a", "bc"}


def test_a_resolved_regex_has_metadata_version_and_time() -> None:
    image = one_node("a")
    assert resolve(["a", "b"], image, 7) == {
        "a": ResolvedRegex(frozenset({"a"}), image.offset, 7),
        "b": ResolvedRegex(frozenset(), image.offset, 7),
    }


@pytest.mark.parametrize("pattern", ["(", "[a", "*", r"(a)\1", "(?=a)b", "(?<!a)b", "a{1001}"])
def test_unsupported_syntax_is_refused(pattern: str) -> None:
    with pytest.raises(ApiError) as caught:
        check(pattern)
    assert caught.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert found(pattern, "a", "b") == set(), "one that comes from the log matches nothing"


def test_a_pattern_that_would_need_too_much_memory_is_refused() -> None:
    with pytest.raises(ApiError):
        check("((a{100}){100}){100}")


def test_time_is_linear_in_the_name() -> None:
    assert found("(a+)+b", "a" * 249) == set()
    assert found("(a|a)*c", "a" * 249) == set()
