from __future__ import annotations

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.topic_names import check_topic_name, collision_key


@pytest.mark.parametrize("name", ["a", "A-z_0.9", "__consumer_offsets", "...", "a" * 249, "-"])
def test_good_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "a/b", "../a", "ü", "a\n", "a\x00", "a:b"])
def test_bad_names(name: str) -> None:
    with pytest.raises(ApiError) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_names_that_differ_in_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c") == "a_b_c"
    assert collision_key("abc") is None
